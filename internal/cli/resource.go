package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// Resource is a kind of thing that the engine keeps in a collection.
type Resource struct {
	Name       string // for people and commands: "port"
	Collection string // in paths and answers: "ports" or "volume/targets"
	Plural     string // for people, empty for the collection
	ID         string // the identifying field, empty for uuid
	// Short and Long are the columns of a list.
	Short, Long []string
	// CreateArg is the field that create takes as an argument too.
	CreateArg string
	// Paged tells whether lists take an order and a limit.
	Paged bool
	// Whole tells that the engine cannot be asked for chosen fields in lists.
	Whole bool
	// Finder is a flag of show that makes the argument a value of this field,
	// instead of a name or UUID; its Flag is empty for none.
	Finder Field
	// Fields are what create, set and unset may change; Filters what lists
	// may be limited by.
	Fields  []Field
	Filters []Field
}

func (r Resource) listing() baremetal.Listing {
	return baremetal.Listing{Op: "list " + cmp.Or(r.Plural, r.Collection), Collection: r.path(), ID: r.ID}
}

// path is where the collection is, or what the further segments name in it.
func (r Resource) path(further ...string) []string {
	return append(strings.Split(r.Collection, "/"), further...)
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
		Finder: Field{Flag: "instance", Name: "instance_uuid", Help: "NODE is the UUID of the instance on it"},
		Fields: nodeFields, Filters: nodeFilters,
	}
	Ports = Resource{
		Name: "port", Collection: "ports", Paged: true, CreateArg: "address", Finder: byAddress,
		Short: []string{"uuid", "address"},
		Long: []string{
			"uuid", "address", "created_at", "extra", "node_uuid", "local_link_connection", "portgroup_uuid",
			"pxe_enabled", "physical_network", "updated_at", "internal_info", "is_smartnic",
		},
		Fields: []Field{
			{Flag: "address", Name: "address", In: InCreate | InSet, Required: true, Help: "MAC address"},
			ownerField,
			uuidField,
			{Flag: "name", Name: "name", In: InAll, Help: "name"},
			{Flag: "port-group", Name: "portgroup_uuid", In: InAll, Help: "`UUID` of the port group that it belongs to"},
			{Flag: "local-link-connection", Name: "local_link_connection", Kind: Map, In: InAll, Help: "`KEY=VALUE` of the switch port: switch_id, port_id, switch_info"},
			{Flag: "pxe-enabled", Name: "pxe_enabled", Kind: Bool, Off: "pxe-disabled", In: InAll, Help: "whether the node may boot from it"},
			{Flag: "physical-network", Name: "physical_network", In: InAll, Help: "name of the network that it is connected to"},
			{Flag: "is-smartnic", Name: "is_smartnic", Kind: Bool, In: InAll, Help: "whether it is a smart NIC"},
			{Flag: "vendor", Name: "vendor", In: InAll, Help: "who made it"},
			{Flag: "category", Name: "category", In: InAll, Help: "category, which selects ports for networks"},
			{Flag: "description", Name: "description", In: InAll, Help: "text for people"},
			extraField,
		},
		Filters: []Field{
			{Flag: "node", Name: "node", Help: "only ports of the `NODE` with this name or UUID"},
			{Flag: "address", Name: "address", Help: "only the port with this MAC address"},
			{Flag: "port-group", Name: "portgroup", Help: "only ports of the port group with this `UUID` or name"},
			{Flag: "shard", Name: "shard", Help: "only ports of nodes of this shard"},
			{Flag: "conductor-groups", Name: "conductor_groups", Help: "only ports of nodes of these conductor groups, separated by commas"},
			{Flag: "description-contains", Name: "description_contains", Help: "only ports whose description contains this text"},
		},
	}
	Portgroups = Resource{
		Name: "portgroup", Collection: "portgroups", Plural: "port groups", Paged: true, Finder: byAddress,
		Short: []string{"uuid", "address", "name"},
		Long: []string{
			"uuid", "address", "name", "created_at", "extra", "node_uuid", "mode", "properties",
			"standalone_ports_supported", "updated_at",
		},
		Fields: []Field{
			ownerField,
			{Flag: "address", Name: "address", In: InAll, Help: "MAC address"},
			{Flag: "name", Name: "name", In: InAll, Help: "name"},
			uuidField,
			{Flag: "mode", Name: "mode", In: InCreate | InSet, Help: "bonding mode, for instance 802.3ad"},
			{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "`KEY=VALUE` of the bonding's properties"},
			{
				Flag: "support-standalone-ports", Name: "standalone_ports_supported", Kind: Bool, Off: "unsupport-standalone-ports",
				In: InCreate | InSet, Help: "whether its ports may be used without it",
			},
			{Flag: "physical-network", Name: "physical_network", In: InAll, Help: "name of the network that it is connected to"},
			{Flag: "category", Name: "category", In: InAll, Help: "category, which selects port groups for networks"},
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
			uuidField,
			extraField,
		},
	}
)

// Fields that several kinds of things have.
var (
	extraField = Field{Flag: "extra", Name: "extra", Kind: Map, In: InAll, Help: "`KEY=VALUE` of any use; may be repeated"}
	uuidField  = Field{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to give it"}
	ownerField = Field{Flag: "node", Name: "node_uuid", Kind: NodeID, In: InCreate | InSet, Required: true, Help: "`NODE` that it belongs to"}
	byAddress  = Field{Flag: "address", Name: "address", Help: "the argument is a MAC address"}
)
