package cli

import (
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// Resource is a kind of thing that the engine keeps in a collection.
type Resource struct {
	Name       string // for people and commands: "port"
	Collection string // in paths and answers: "ports"
	ID         string // the identifying field, empty for uuid
	// Short and Long are the columns of a list.
	Short, Long []string
	// CreateArg is the field that create takes as an argument too.
	CreateArg string
	// Paged tells whether lists take an order and a limit.
	Paged bool
	// Fields are what create, set and unset may change; Filters what lists
	// may be limited by.
	Fields  []Field
	Filters []Field
}

func (r Resource) listing() baremetal.Listing {
	return baremetal.Listing{Collection: r.Collection, ID: r.ID}
}

// advise says where to look for a thing that the engine does not know. For
// nodes the hint of the kind of failure does so.
func (r Resource) advise(err error) error {
	if r.Name == Nodes.Name || !errors.Is(err, baremetal.ErrNotFound) {
		return err
	}
	return &AdvisedError{Err: err, Advice: fmt.Sprintf("See what the engine has with: ingot %s list.", r.Name)}
}

// Columns of a node list: what other clients of this API show, and more of it.
var (
	shortColumns = []string{"uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance"}
	longColumns  = append(append([]string(nil), shortColumns...),
		"driver", "auto_discovered", "resource_class", "target_provision_state", "reservation", "last_error",
		"inspection_finished_at", "created_at", "updated_at")
)

// The kinds of things that have commands of their own.
var (
	Nodes = Resource{
		Name: "node", Collection: "nodes", Short: shortColumns, Long: longColumns, Paged: true,
		Fields: nodeFields, Filters: nodeFilters,
	}
	Ports = Resource{
		Name: "port", Collection: "ports", Paged: true, CreateArg: "address",
		Short: []string{"uuid", "address"},
		Long: []string{
			"uuid", "address", "created_at", "extra", "node_uuid", "local_link_connection", "portgroup_uuid",
			"pxe_enabled", "physical_network", "updated_at", "internal_info", "is_smartnic",
		},
		Fields: []Field{
			{Flag: "address", Name: "address", In: InCreate | InSet, Required: true, Help: "MAC address"},
			{Flag: "node", Name: "node_uuid", In: InCreate | InSet, Required: true, Help: "`UUID` of the node that it belongs to"},
			{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to give it"},
			{Flag: "name", Name: "name", In: InAll, Help: "name"},
			{Flag: "port-group", Name: "portgroup_uuid", In: InAll, Help: "`UUID` of the port group that it belongs to"},
			{Flag: "local-link-connection", Name: "local_link_connection", Kind: Map, In: InAll, Help: "`KEY=VALUE` of the switch port: switch_id, port_id, switch_info"},
			{Flag: "pxe-enabled", Name: "pxe_enabled", Kind: Bool, Off: "pxe-disabled", In: InAll, Help: "whether the node may boot from it"},
			{Flag: "physical-network", Name: "physical_network", In: InAll, Help: "name of the network that it is connected to"},
			{Flag: "is-smartnic", Name: "is_smartnic", Kind: Bool, In: InAll, Help: "whether it is a smart NIC"},
			{Flag: "description", Name: "description", In: InAll, Help: "text for people"},
			extraField,
		},
		Filters: []Field{
			{Flag: "node", Name: "node", Help: "only ports of the `NODE` with this name or UUID"},
			{Flag: "address", Name: "address", Help: "only the port with this MAC address"},
			{Flag: "port-group", Name: "portgroup", Help: "only ports of the port group with this `UUID` or name"},
		},
	}
	Portgroups = Resource{
		Name: "portgroup", Collection: "portgroups", Paged: true,
		Short: []string{"uuid", "address", "name"},
		Long: []string{
			"uuid", "address", "name", "created_at", "extra", "node_uuid", "mode", "properties",
			"standalone_ports_supported", "updated_at",
		},
		Fields: []Field{
			{Flag: "node", Name: "node_uuid", In: InCreate | InSet, Required: true, Help: "`UUID` of the node that it belongs to"},
			{Flag: "address", Name: "address", In: InAll, Help: "MAC address"},
			{Flag: "name", Name: "name", In: InAll, Help: "name"},
			{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to give it"},
			{Flag: "mode", Name: "mode", In: InCreate | InSet, Help: "bonding mode, for instance 802.3ad"},
			{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "`KEY=VALUE` of the bonding's properties"},
			{
				Flag: "support-standalone-ports", Name: "standalone_ports_supported", Kind: Bool, Off: "unsupport-standalone-ports",
				In: InCreate | InSet, Help: "whether its ports may be used without it",
			},
			extraField,
		},
		Filters: []Field{
			{Flag: "node", Name: "node", Help: "only port groups of the `NODE` with this name or UUID"},
			{Flag: "address", Name: "address", Help: "only the port group with this MAC address"},
		},
	}
	Chassis = Resource{
		Name: "chassis", Collection: "chassis", Paged: true,
		Short: []string{"uuid", "description"},
		Long:  []string{"uuid", "description", "created_at", "updated_at", "extra"},
		Fields: []Field{
			{Flag: "description", Name: "description", In: InAll, Help: "text for people"},
			{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to give it"},
			extraField,
		},
	}
	Allocations = Resource{
		Name: "allocation", Collection: "allocations", Paged: true,
		Short: []string{"uuid", "name", "resource_class", "state", "node_uuid"},
		Long: []string{
			"uuid", "name", "state", "node_uuid", "last_error", "resource_class", "traits", "candidate_nodes",
			"extra", "owner", "created_at", "updated_at",
		},
		Fields: []Field{
			{Flag: "resource-class", Name: "resource_class", In: InCreate, Help: "resource class that the node must have"},
			{Flag: "trait", Name: "traits", Kind: Repeated, In: InCreate, Help: "`TRAIT` that the node must have; may be repeated"},
			{Flag: "candidate-node", Name: "candidate_nodes", Kind: Repeated, In: InCreate, Help: "`NODE` that may be taken, all by default; may be repeated"},
			{Flag: "node", Name: "node", In: InCreate, Help: "`NODE` that already runs the instance"},
			{Flag: "name", Name: "name", In: InAll, Help: "name, which is the node's host name too"},
			{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to give it"},
			{Flag: "owner", Name: "owner", In: InCreate, Help: "owner"},
			extraField,
		},
		Filters: []Field{
			{Flag: "node", Name: "node", Help: "only the allocation of the `NODE` with this name or UUID"},
			{Flag: "resource-class", Name: "resource_class", Help: "only allocations of this resource class"},
			{Flag: "state", Name: "state", Help: "only allocations in this state: allocating, active or error"},
			{Flag: "owner", Name: "owner", Help: "only allocations of this owner"},
		},
	}
	Drivers = Resource{
		Name: "driver", Collection: "drivers", ID: "name",
		Short: []string{"name", "hosts"},
		Long:  []string{"name", "hosts", "type"},
	}
	Conductors = Resource{
		Name: "conductor", Collection: "conductors", ID: "hostname", Paged: true,
		Short: []string{"hostname", "conductor_group", "alive"},
		Long:  []string{"hostname", "conductor_group", "alive", "drivers", "created_at", "updated_at"},
	}
)

var extraField = Field{Flag: "extra", Name: "extra", Kind: Map, In: InAll, Help: "`KEY=VALUE` of any use; may be repeated"}
