package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func portgroupUUID(g *node.Portgroup) string { return g.UUID }

// portgroupTable is every field of a port group, in the order of output.
var portgroupTable = newTable("port group", []field[node.Portgroup]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(g *node.Portgroup) *string { return &g.UUID })},
	{name: "name", since: 1, access: patchable, brief: true, value: textOf(func(g *node.Portgroup) *string { return &g.Name })},
	{name: "address", since: 1, access: patchable, brief: true, value: macOf(func(g *node.Portgroup) *string { return &g.Address })},
	{name: "node_uuid", since: 1, access: patchable, noSort: true, value: uuidOf(func(g *node.Portgroup) *string { return &g.NodeUUID })},
	{name: "standalone_ports_supported", since: 1, access: patchable, value: flagWithDefault(true, func(g *node.Portgroup) *bool { return &g.StandalonePortsSupported })},
	{name: "mode", since: 26, access: patchable, lateOperations: true, value: textWithDefault(node.DefaultBondMode, func(g *node.Portgroup) *string { return &g.Mode })},
	{name: "properties", since: 26, access: patchable, lateOperations: true, noSort: true, value: objectOf(func(g *node.Portgroup) *node.Object { return &g.Properties })},
	{name: "physical_network", since: 102, access: patchable, value: textUpTo(64, func(g *node.Portgroup) *string { return &g.PhysicalNetwork })},
	{name: "category", since: 103, access: patchable, value: textUpTo(80, func(g *node.Portgroup) *string { return &g.Category })},
	{name: "internal_info", since: 1, noSort: true, value: secretOf(func(g *node.Portgroup) *node.Object { return &g.InternalInfo })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(g *node.Portgroup) *node.Object { return &g.Extra })},
	{name: "ports", since: 24, noSort: true, value: computed(func(dst []byte, v *view, g *node.Portgroup) []byte {
		return v.links.appendLinks(dst, "portgroups/", g.UUID, "/ports")
	})},
}, stampsOf("portgroups", portgroupUUID,
	func(g *node.Portgroup) *time.Time { return &g.CreatedAt }, func(g *node.Portgroup) *time.Time { return &g.UpdatedAt }))

func (a *api) portgroups() *collection[node.Portgroup] {
	return &collection[node.Portgroup]{
		api: a, table: portgroupTable, path: "portgroups", name: "portgroups", named: true, since: 23, detailSince: detailSince, detailPath: true,
		all: Engine.Portgroups, uuid: portgroupUUID,
		filters: []filter{
			{name: "address", since: 1, parse: addressFilter},
			{name: "node", since: 1, find: nodeFilter},
			{name: "conductor_groups", since: 99, parse: groupsFilter},
			{name: "shard", since: 106, parse: anyOfFilter("shard")},
		},
		exclusive: [][]string{{"node"}, {"shard"}},
		defaults: func() *node.Portgroup {
			return &node.Portgroup{StandalonePortsSupported: true, Mode: node.DefaultBondMode}
		},
		check: checkPortgroup,
	}
}

// checkPortgroup checks the rules that involve several fields of a port group.
func checkPortgroup(g *node.Portgroup, version int) error {
	if g.NodeUUID == "" {
		return node.Invalid("A port group needs a node_uuid.")
	}
	if err := checkName(g.Name, version); err != nil {
		return invalidField("name", err)
	}
	return nil
}

// portgroupRoutes are the routes of port groups, of the port groups of a node, and of
// the ports of a port group.
func (a *api) portgroupRoutes() []route {
	groups := a.portgroups()
	return append(groups.routes(),
		route{method: get, pattern: "/v1/portgroups/{ident}/ports", role: reader, since: 24, args: partPortArgs, handler: a.portsOfGroup(groups, false)},
		route{method: get, pattern: "/v1/portgroups/{ident}/ports/detail", role: reader, since: 24, args: partPortArgs, handler: a.portsOfGroup(groups, true)},
		route{method: get, pattern: "/v1/nodes/{ident}/portgroups", role: reader, since: 24, args: filterArgs(groups.filters[:1]), handler: groups.ofNode(false)},
		route{method: get, pattern: "/v1/nodes/{ident}/portgroups/detail", role: reader, since: 24, args: filterArgs(groups.filters[:1]), handler: groups.ofNode(true)},
	)
}

func (a *api) portsOfGroup(groups *collection[node.Portgroup], detail bool) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ident, err := groups.ident(r)
		if err != nil {
			return err
		}
		g, err := a.engine.Portgroups().Get(r.Context(), ident)
		if err != nil {
			return err
		}
		conditions, err := a.conditions(r, partPortFilters)
		if err != nil {
			return err
		}
		conditions = append(conditions, node.Filter{Field: "portgroup_uuid", Value: g.UUID})
		return a.writePorts(w, r, "portgroups/"+g.UUID+"/ports", detail, conditions)
	}
}

// portgroupFilter keeps the ports of the port group that the argument names.
func portgroupFilter(a *api, r *http.Request, ident string) (node.Filter, error) {
	if err := checkReference(ident); err != nil {
		return node.Filter{}, badRequest("Invalid value for argument portgroup: %v", err)
	}
	if isUUID(ident) { // needs no lookup
		return node.Filter{Field: "portgroup_uuid", Value: strings.ToLower(ident)}, nil
	}
	g, err := a.engine.Portgroups().Get(r.Context(), ident)
	if err != nil {
		return node.Filter{}, err
	}
	return node.Filter{Field: "portgroup_uuid", Value: g.UUID}, nil
}
