package store

import (
	"github.com/ingot-metal/ingot/internal/node"
)

// Chassis is every chassis.
var Chassis = newCollection("chassis", "Chassis",
	func(c *node.Chassis) identity {
		return identity{id: &c.ID, uuid: &c.UUID, created: &c.CreatedAt, updated: &c.UpdatedAt}
	},
	nil,
	textColumn("description", func(c *node.Chassis) *string { return &c.Description }),
	objectColumn("extra", func(c *node.Chassis) *node.Object { return &c.Extra }),
)

// Portgroups is every port group.
var Portgroups = newCollection("portgroups", "Port group",
	func(g *node.Portgroup) identity {
		return identity{&g.ID, &g.UUID, &g.CreatedAt, &g.UpdatedAt, &g.NodeID, &g.NodeUUID}
	},
	[]unique{
		{[]string{"name"}, "A port group with name %v already exists."},
		{[]string{"address"}, "A port group with MAC address %v already exists."},
	},
	textColumn("name", func(g *node.Portgroup) *string { return &g.Name }),
	textColumn("address", func(g *node.Portgroup) *string { return &g.Address }),
	textColumn("mode", func(g *node.Portgroup) *string { return &g.Mode }),
	boolColumn("standalone_ports_supported", func(g *node.Portgroup) *bool { return &g.StandalonePortsSupported }),
	textColumn("physical_network", func(g *node.Portgroup) *string { return &g.PhysicalNetwork }),
	textColumn("category", func(g *node.Portgroup) *string { return &g.Category }),
	objectColumn("properties", func(g *node.Portgroup) *node.Object { return &g.Properties }),
	objectColumn("internal_info", func(g *node.Portgroup) *node.Object { return &g.InternalInfo }),
	objectColumn("extra", func(g *node.Portgroup) *node.Object { return &g.Extra }),
)

// Allocations is every allocation.
var Allocations = newCollection("allocations", "Allocation",
	func(a *node.Allocation) identity {
		return identity{&a.ID, &a.UUID, &a.CreatedAt, &a.UpdatedAt, &a.NodeID, &a.NodeUUID}
	},
	[]unique{
		{[]string{"name"}, "An allocation with name %v already exists."},
		{[]string{"node_id"}, "The node has an allocation already."},
	},
	textColumn("name", func(a *node.Allocation) *string { return &a.Name }),
	textColumn("resource_class", func(a *node.Allocation) *string { return &a.ResourceClass }),
	textColumn("candidate_nodes", func(a *node.Allocation) *node.Words { return &a.CandidateNodes }),
	textColumn("traits", func(a *node.Allocation) *node.Words { return &a.Traits }),
	textColumn("owner", func(a *node.Allocation) *string { return &a.Owner }),
	requiredTextColumn("state", func(a *node.Allocation) *node.AllocationState { return &a.State }),
	textColumn("last_error", func(a *node.Allocation) *string { return &a.LastError }),
	objectColumn("extra", func(a *node.Allocation) *node.Object { return &a.Extra }),
)

// DeployTemplates is every deploy template.
var DeployTemplates = newCollection("deploy_templates", "Deploy template",
	func(d *node.DeployTemplate) identity {
		return identity{id: &d.ID, uuid: &d.UUID, created: &d.CreatedAt, updated: &d.UpdatedAt}
	},
	[]unique{{[]string{"name"}, "A deploy template with name %v already exists."}},
	requiredTextColumn("name", func(d *node.DeployTemplate) *string { return &d.Name }),
	arrayColumn("steps", func(d *node.DeployTemplate) *node.Array { return &d.Steps }),
	objectColumn("extra", func(d *node.DeployTemplate) *node.Object { return &d.Extra }),
)

// Runbooks is every runbook.
var Runbooks = newCollection("runbooks", "Runbook",
	func(r *node.Runbook) identity {
		return identity{id: &r.ID, uuid: &r.UUID, created: &r.CreatedAt, updated: &r.UpdatedAt}
	},
	[]unique{{[]string{"name"}, "A runbook with name %v already exists."}},
	requiredTextColumn("name", func(r *node.Runbook) *string { return &r.Name }),
	arrayColumn("steps", func(r *node.Runbook) *node.Array { return &r.Steps }),
	boolColumn("disable_ramdisk", func(r *node.Runbook) *bool { return &r.DisableRamdisk }),
	boolColumn("public", func(r *node.Runbook) *bool { return &r.Public }),
	textColumn("owner", func(r *node.Runbook) *string { return &r.Owner }),
	objectColumn("extra", func(r *node.Runbook) *node.Object { return &r.Extra }),
)

// VolumeConnectors is every volume connector.
var VolumeConnectors = newCollection("volume_connectors", "Volume connector",
	func(v *node.VolumeConnector) identity {
		return identity{&v.ID, &v.UUID, &v.CreatedAt, &v.UpdatedAt, &v.NodeID, &v.NodeUUID}
	},
	[]unique{{[]string{"type", "connector_id"}, "A volume connector of type %v with connector_id %v already exists."}},
	requiredTextColumn("type", func(v *node.VolumeConnector) *string { return &v.Type }),
	requiredTextColumn("connector_id", func(v *node.VolumeConnector) *string { return &v.ConnectorID }),
	objectColumn("extra", func(v *node.VolumeConnector) *node.Object { return &v.Extra }),
)

// VolumeTargets is every volume target.
var VolumeTargets = newCollection("volume_targets", "Volume target",
	func(v *node.VolumeTarget) identity {
		return identity{&v.ID, &v.UUID, &v.CreatedAt, &v.UpdatedAt, &v.NodeID, &v.NodeUUID}
	},
	[]unique{{[]string{"node_id", "boot_index"}, "A volume target of the same node with boot_index %[2]v already exists."}},
	requiredTextColumn("volume_type", func(v *node.VolumeTarget) *string { return &v.VolumeType }),
	requiredTextColumn("volume_id", func(v *node.VolumeTarget) *string { return &v.VolumeID }),
	intColumn("boot_index", func(v *node.VolumeTarget) *int64 { return &v.BootIndex }),
	objectColumn("properties", func(v *node.VolumeTarget) *node.Object { return &v.Properties }),
	objectColumn("extra", func(v *node.VolumeTarget) *node.Object { return &v.Extra }),
)
