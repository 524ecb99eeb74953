package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Resource is a kind of object that the engine keeps in a collection.
type Resource struct {
	Name       string // in commands: "port"
	Collection string // in paths and answers: "ports" or "volume/targets"
	// Singular and Plural are for people; empty means Name and Collection.
	Singular, Plural string
	ID               string // the identifying field, empty for uuid
	// Short and Long are the columns of a list.
	Short, Long []string
	// CreateArg is the field that create also takes as an argument.
	CreateArg string
	// Paged reports whether lists take an order and a limit.
	Paged bool
	// Whole means that the engine cannot limit lists to chosen fields.
	Whole bool
	// Finder is a flag of show. With the flag, the argument is a value of this field instead of a
	// name or UUID. Its Flag is empty for none.
	Finder Field
	// Fields are the fields that create, set and unset may change. Filters are the flags that limit
	// a list.
	Fields  []Field
	Filters []Field
}

// One returns a phrase for one such object: "an allocation".
func (r Resource) One() string {
	noun := cmp.Or(r.Singular, r.Name)
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Many returns a phrase for several such objects: "port groups".
func (r Resource) Many() string { return cmp.Or(r.Plural, r.Collection) }

func (r Resource) listing() ironic.Listing {
	return ironic.Listing{Op: "list " + r.Many(), Collection: r.path(), ID: r.ID}
}

// path returns the path of the collection, extended by further segments.
func (r Resource) path(further ...string) []string {
	return append(strings.Split(r.Collection, "/"), further...)
}

// advise adds to the error for an unknown object how to list the existing objects. For nodes, the
// general advice on unknown objects does that.
func (r Resource) advise(err error) error {
	if r.Name == Nodes.Name || !errors.Is(err, ironic.ErrNotFound) {
		return err
	}
	return &AdvisedError{Err: err, Advice: fmt.Sprintf("See what the engine has with: ingot %s list.", r.Name)}
}

// Columns of a list of nodes: the ones that other clients of this API show, and more.
var (
	shortColumns = []string{"uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance"}
	longColumns  = append(append([]string(nil), shortColumns...),
		"driver", "auto_discovered", "resource_class", "target_provision_state", "reservation", "last_error",
		"inspection_finished_at", "created_at", "updated_at")
)

// The resources that have commands of their own.
var (
	Nodes = Resource{
		Name: "node", Collection: "nodes", Short: shortColumns, Long: longColumns, Paged: true,
		Finder: Field{Flag: "instance", Name: "instance_uuid", Help: "NODE is the UUID of an instance instead of the node's name or UUID"},
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
			{Flag: "name", Name: "name", In: InAll, Help: "name of the port"},
			{Flag: "port-group", Name: "portgroup_uuid", In: InAll, Help: "`UUID` of the port group that the port belongs to"},
			{Flag: "local-link-connection", Name: "local_link_connection", Kind: Map, In: InAll, Help: "`KEY=VALUE` of the switch port: switch_id, port_id, switch_info"},
			{Flag: "pxe-enabled", Name: "pxe_enabled", Kind: Bool, Off: "pxe-disabled", In: InAll, Help: "whether the node may boot from the port"},
			{Flag: "physical-network", Name: "physical_network", In: InAll, Help: "name of the physical network that the port is connected to"},
			{Flag: "is-smartnic", Name: "is_smartnic", Kind: Bool, In: InAll, Help: "whether the port is on a smart NIC"},
			{Flag: "vendor", Name: "vendor", In: InAll, Help: "vendor of the network adapter"},
			{Flag: "category", Name: "category", In: InAll, Help: "category that networks select ports by"},
			{Flag: "description", Name: "description", In: InAll, Help: "description for people"},
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
		Name: "portgroup", Collection: "portgroups", Singular: "port group", Plural: "port groups", Paged: true, Finder: byAddress,
		Short: []string{"uuid", "address", "name"},
		Long: []string{
			"uuid", "address", "name", "created_at", "extra", "node_uuid", "mode", "properties",
			"standalone_ports_supported", "updated_at",
		},
		Fields: []Field{
			ownerField,
			{Flag: "address", Name: "address", In: InAll, Help: "MAC address"},
			{Flag: "name", Name: "name", In: InAll, Help: "name of the port group"},
			uuidField,
			{Flag: "mode", Name: "mode", In: InCreate | InSet, Help: "bonding mode, for instance 802.3ad"},
			{Flag: "property", Name: "properties", Kind: Map, In: InAll, Help: "bonding property `KEY=VALUE`; may be repeated"},
			{
				Flag: "support-standalone-ports", Name: "standalone_ports_supported", Kind: Bool, Off: "unsupport-standalone-ports",
				In: InCreate | InSet, Help: "whether its ports also work outside the group",
			},
			{Flag: "physical-network", Name: "physical_network", In: InAll, Help: "name of the physical network that the port group is connected to"},
			{Flag: "category", Name: "category", In: InAll, Help: "category that networks select port groups by"},
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
			{Flag: "description", Name: "description", In: InAll, Help: "description for people"},
			uuidField,
			extraField,
		},
	}
)

// Fields that several kinds of objects have.
var (
	extraField = Field{Flag: "extra", Name: "extra", Kind: Map, In: InAll, Help: "extra metadata `KEY=VALUE`; may be repeated"}
	uuidField  = Field{Flag: "uuid", Name: "uuid", In: InCreate, Help: "UUID to create it with, instead of a new one"}
	ownerField = Field{Flag: "node", Name: "node_uuid", Kind: NodeID, In: InCreate | InSet, Required: true, Help: "name or UUID of the `NODE` that it belongs to"}
	byAddress  = Field{Flag: "address", Name: "address", Help: "the argument is a MAC address instead of a UUID"}
)
