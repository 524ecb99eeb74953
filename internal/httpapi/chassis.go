package httpapi

import (
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func chassisUUID(c *node.Chassis) string { return c.UUID }

// chassisTable is every field of a chassis, in the order of output.
var chassisTable = newTable("chassis", []field[node.Chassis]{
	{name: "uuid", since: 1, access: atCreate, brief: true, value: uuidOf(func(c *node.Chassis) *string { return &c.UUID })},
	{name: "description", since: 1, access: patchable, brief: true, value: textOf(func(c *node.Chassis) *string { return &c.Description })},
	{name: "extra", since: 1, access: patchable, noSort: true, value: objectOf(func(c *node.Chassis) *node.Object { return &c.Extra })},
	{name: "nodes", since: 1, noSort: true, value: computed(func(dst []byte, v *view, c *node.Chassis) []byte {
		return v.links.appendLinks(dst, "chassis/", c.UUID, "/nodes")
	})},
}, stampsOf("chassis", chassisUUID,
	func(c *node.Chassis) *time.Time { return &c.CreatedAt }, func(c *node.Chassis) *time.Time { return &c.UpdatedAt }))

func (a *api) chassis() *collection[node.Chassis] {
	return &collection[node.Chassis]{
		api: a, table: chassisTable, path: "chassis", name: "chassis", since: 1, detailSince: detailSince, detailPath: true,
		all: Engine.Chassis, uuid: chassisUUID,
		check: func(*node.Chassis, int) error { return nil },
	}
}

// chassisRoutes are the routes of chassis and of the nodes in a chassis.
func (a *api) chassisRoutes() []route {
	chassis := a.chassis()
	return append(chassis.routes(),
		route{method: get, pattern: "/v1/chassis/{ident}/nodes", role: reader, args: nodeListArgs(), handler: a.nodesOfChassis(chassis, false)},
		route{method: get, pattern: "/v1/chassis/{ident}/nodes/detail", role: reader, args: nodeListArgs(), handler: a.nodesOfChassis(chassis, true)},
	)
}

func (a *api) nodesOfChassis(chassis *collection[node.Chassis], detail bool) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ident, err := chassis.ident(r)
		if err != nil {
			return err
		}
		found, err := a.engine.Chassis().Get(r.Context(), ident)
		if err != nil {
			return err
		}
		return a.writeNodes(w, r, "chassis/"+found.UUID+"/nodes", detail, node.Filter{Field: "chassis_uuid", Value: found.UUID})
	}
}
