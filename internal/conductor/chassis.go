package conductor

import (
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Chassis serves the chassis. One that has nodes cannot be deleted.
func (c *Conductor) Chassis() node.Collection[node.Chassis] {
	return collection[node.Chassis]{c: c, kind: store.Chassis, rules: rules[node.Chassis]{
		deleted: func(tx *store.Tx, chassis *node.Chassis) error {
			nodes, err := tx.Nodes(node.Query{Limit: 1, Filters: []node.Filter{{Field: "chassis_uuid", Value: chassis.UUID}}})
			if err == nil && len(nodes) > 0 {
				err = node.Invalid("Chassis %s still has nodes, such as %s: move them first.", chassis.UUID, nodes[0].UUID)
			}
			return err
		},
	}}
}

// checkChassis refuses a node in a chassis that does not exist.
func checkChassis(tx *store.Tx, n *node.Node) error {
	if n.ChassisUUID == "" {
		return nil
	}
	_, err := store.Chassis.Refer(tx, n.ChassisUUID)
	if isNotFound(err) {
		return node.Invalid("Chassis %s could not be found.", n.ChassisUUID)
	}
	return err
}
