package httpapi

import (
	"encoding/json"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/role"
)

type nodeField = field[node.Node]

// nodeTable is every field of a node, in the order of output.
var nodeTable = newTable("node",
	nodeIdentityFields, nodeStateFields, nodeObjectFields, nodePolicyFields, nodeInterfaceFields, nodeLinkFields)

var nodeIdentityFields = []nodeField{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(n *node.Node) *string { return &n.UUID })},
	{name: "name", since: 5, access: patchable, brief: true, value: textOf(func(n *node.Node) *string { return &n.Name })},
	{name: "driver", since: 1, access: patchable, value: textOf(func(n *node.Node) *string { return &n.Driver })},
	{name: "instance_uuid", since: 1, access: patchable, brief: true, value: uuidOf(func(n *node.Node) *string { return &n.InstanceUUID })},
	{name: "instance_name", since: 104, access: patchable, value: textOf(func(n *node.Node) *string { return &n.InstanceName })},
	{name: "chassis_uuid", since: 1, clearSince: 25, access: patchable, value: uuidOf(func(n *node.Node) *string { return &n.ChassisUUID })},
	{name: "allocation_uuid", since: 52, value: textOf(func(n *node.Node) *string { return &n.AllocationUUID })},
	{name: "parent_node", since: 83, access: patchable, value: uuidOf(func(n *node.Node) *string { return &n.ParentNode })},
	{name: "auto_discovered", since: 84, value: flagOf(func(n *node.Node) *bool { return &n.AutoDiscovered })},
}

var nodeStateFields = []nodeField{
	{name: "power_state", since: 1, brief: true, value: computed(func(dst []byte, _ *view, n *node.Node) []byte {
		return appendText(dst, string(n.PowerState))
	})},
	{name: "target_power_state", since: 1, value: computed(func(dst []byte, _ *view, n *node.Node) []byte {
		return appendText(dst, string(n.TargetPowerState))
	})},
	{name: "provision_state", since: 1, brief: true, value: computed(func(dst []byte, v *view, n *node.Node) []byte {
		return appendText(dst, shownState(n.ProvisionState, v.version))
	})},
	{name: "target_provision_state", since: 1, value: computed(func(dst []byte, v *view, n *node.Node) []byte {
		return appendText(dst, shownState(n.TargetProvisionState, v.version))
	})},
	{name: "provision_updated_at", since: 1, value: timeOf(func(n *node.Node) *time.Time { return &n.ProvisionUpdatedAt })},
	{name: "last_error", since: 1, value: textOf(func(n *node.Node) *string { return &n.LastError })},
	{name: "reservation", since: 1, noSort: true, value: computed(func(dst []byte, v *view, n *node.Node) []byte {
		if n.Lease.InForce(v.now) {
			return appendText(dst, n.Lease.Holder)
		}
		return append(dst, "null"...)
	})},
	{name: "maintenance", since: 1, access: patchable, brief: true, value: maintenanceValue},
	{name: "maintenance_reason", since: 1, value: textOf(func(n *node.Node) *string { return &n.MaintenanceReason })},
	{name: "fault", since: 42, value: textOf(func(n *node.Node) *string { return &n.Fault })},
	{name: "health", since: 109, value: textOf(func(n *node.Node) *string { return &n.Health })},
	{name: "console_enabled", since: 1, access: atCreate, value: flagOf(func(n *node.Node) *bool { return &n.ConsoleEnabled })},
	{name: "boot_mode", since: 75, access: atCreate, value: wordOf(bootModes, func(n *node.Node) *string { return &n.BootMode })},
	{name: "secure_boot", since: 75, access: atCreate, value: optionalFlagOf(func(n *node.Node) **bool { return &n.SecureBoot })},
	{name: "inspection_started_at", since: 6, value: timeOf(func(n *node.Node) *time.Time { return &n.InspectionStartedAt })},
	{name: "inspection_finished_at", since: 6, value: timeOf(func(n *node.Node) *time.Time { return &n.InspectionFinishedAt })},
	{name: "created_at", since: 1, value: timeOf(func(n *node.Node) *time.Time { return &n.CreatedAt })},
	{name: "updated_at", since: 1, value: timeOf(func(n *node.Node) *time.Time { return &n.UpdatedAt })},
}

// bootModes are the boot modes of a machine.
var bootModes = []string{"uefi", "bios"}

var nodeObjectFields = []nodeField{
	{name: "driver_info", since: 1, access: patchable, role: admin, noSort: true, value: secretOf(func(n *node.Node) *node.Object { return &n.DriverInfo })},
	{name: "driver_internal_info", since: 3, noSort: true, value: secretOf(func(n *node.Node) *node.Object { return &n.DriverInternalInfo })},
	{name: "properties", since: 1, access: patchable, noSort: true, value: objectOf(func(n *node.Node) *node.Object { return &n.Properties })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(n *node.Node) *node.Object { return &n.Extra })},
	{name: "instance_info", since: 1, access: patchable, noSort: true, value: maskedOf(instanceMasking, func(n *node.Node) *node.Object { return &n.InstanceInfo })},
	{name: "network_data", since: 66, access: patchable, noSort: true, value: objectOf(func(n *node.Node) *node.Object { return &n.NetworkData })},
	{name: "clean_step", since: 7, noSort: true, value: secretOf(func(n *node.Node) *node.Object { return &n.CleanStep })},
	{name: "deploy_step", since: 44, noSort: true, value: secretOf(func(n *node.Node) *node.Object { return &n.DeployStep })},
	{name: "service_step", since: 87, noSort: true, value: secretOf(func(n *node.Node) *node.Object { return &n.ServiceStep })},
	{name: "raid_config", since: 12, noSort: true, value: objectOf(func(n *node.Node) *node.Object { return &n.RAIDConfig })},
	{name: "target_raid_config", since: 12, noSort: true, value: objectOf(func(n *node.Node) *node.Object { return &n.TargetRAIDConfig })},
	{name: "traits", since: traitsSince, noSort: true, value: computed(func(dst []byte, _ *view, n *node.Node) []byte {
		return appendWords(dst, n.Traits)
	})},
}

var nodePolicyFields = []nodeField{
	{name: "resource_class", since: 21, access: patchable, value: textUpTo(80, func(n *node.Node) *string { return &n.ResourceClass })},
	{name: "conductor_group", since: 46, access: patchable, value: conductorGroupValue},
	{name: "conductor", since: 49, noSort: true, needsConductors: true, value: computed(func(dst []byte, v *view, n *node.Node) []byte {
		return appendText(dst, node.Responsible(n.UUID, n.ConductorGroup, v.conductors))
	})},
	{name: "automated_clean", since: 47, access: patchable, value: optionalFlagOf(func(n *node.Node) **bool { return &n.AutomatedClean })},
	{name: "protected", since: 48, access: patchable, value: flagOf(func(n *node.Node) *bool { return &n.Protected })},
	{name: "protected_reason", since: 48, access: patchable, value: textUpTo(maxReason, func(n *node.Node) *string { return &n.ProtectedReason })},
	{name: "retired", since: 61, access: patchable, value: flagOf(func(n *node.Node) *bool { return &n.Retired })},
	{name: "retired_reason", since: 61, access: patchable, value: textUpTo(maxReason, func(n *node.Node) *string { return &n.RetiredReason })},
	{name: "owner", since: 50, access: patchable, value: textOf(func(n *node.Node) *string { return &n.Owner })},
	{name: "lessee", since: 65, access: patchable, value: textOf(func(n *node.Node) *string { return &n.Lessee })},
	{name: "description", since: 51, access: patchable, value: textUpTo(maxReason, func(n *node.Node) *string { return &n.Description })},
	{name: "shard", since: 82, access: patchable, value: textOf(func(n *node.Node) *string { return &n.Shard })},
	{name: "disable_power_off", since: 95, access: patchable, value: flagOf(func(n *node.Node) *bool { return &n.DisablePowerOff })},
}

// interfaceSince has the microversion 1.N that introduced the field of each driver
// interface.
var interfaceSince = [node.InterfaceCount]int{
	node.BIOSInterface: 40, node.BootInterface: 31, node.ConsoleInterface: 31, node.DeployInterface: 31,
	node.FirmwareInterface: 86, node.InspectInterface: 31, node.ManagementInterface: 31, node.NetworkInterface: 20,
	node.PowerInterface: 31, node.RAIDInterface: 31, node.RescueInterface: 38, node.StorageInterface: 33,
	node.VendorInterface: 31,
}

var nodeInterfaceFields = func() (fields []nodeField) {
	for kind := range node.InterfaceCount {
		fields = append(fields, nodeField{
			name: kind.Field(), since: interfaceSince[kind], access: patchable,
			value: textOf(func(n *node.Node) *string { return &n.Interfaces[kind] }),
		})
	}
	return fields
}()

var nodeLinkFields = []nodeField{
	{name: "links", since: 1, brief: true, noSort: true, value: nodeLinks("")},
	{name: "ports", since: 1, noSort: true, value: nodeLinks("/ports")},
	{name: "states", since: 14, noSort: true, value: nodeLinks("/states")},
	{name: "portgroups", since: 24, noSort: true, value: nodeLinks("/portgroups")},
	{name: "volume", since: 32, noSort: true, value: nodeLinks("/volume")},
}

func nodeLinks(part string) value[node.Node] {
	return computed(func(dst []byte, v *view, n *node.Node) []byte {
		return v.links.appendLinks(dst, "nodes/", n.UUID, part)
	})
}

// instanceMasking returns the masking of instance_info for a role. Administrators read it as
// clients wrote it, because their clients compare it with what they want.
func instanceMasking(r role.Role) masking {
	if r >= admin {
		return keepWritten
	}
	return maskSecrets
}

// shownState returns the text of a provision state for clients of a version. Before
// 1.2 available is null, before 1.39 inspect wait is inspecting.
func shownState(s node.State, version int) string {
	switch {
	case s == node.Available && version < 2:
		return ""
	case s == node.InspectWait && version < 39:
		return string(node.Inspecting)
	}
	return string(s)
}

// maintenanceValue clears the reason and the fault when maintenance ends.
var maintenanceValue = func() value[node.Node] {
	v := flagOf(func(n *node.Node) *bool { return &n.Maintenance })
	set := v.read
	v.read = func(n *node.Node, raw json.RawMessage) error {
		err := set(n, raw)
		if err == nil && !n.Maintenance {
			n.MaintenanceReason, n.Fault = "", ""
		}
		return err
	}
	return v
}()
