package conductor

import (
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// rescuePasswordKey is where instance_info keeps the password of the rescue
// system, for as long as it may run.
const rescuePasswordKey = "rescue_password"

// rescueOperations start the rescue system.
func (c *Conductor) rescueOperations(t runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{
		changeBy(c, "rescue", node.RescueInterface, "rescue", driver.Rescue.Rescue),
		c.switchTo(t.Node, node.PowerOn),
	}, nil
}

// unrescueOperations start the instance again.
func (c *Conductor) unrescueOperations(t runner.Task) ([]runner.Operation, error) {
	return []runner.Operation{
		changeBy(c, "unrescue", node.RescueInterface, "rescue", driver.Rescue.Unrescue),
		c.switchTo(t.Node, node.PowerOn),
	}, nil
}

// endUnrescue forgets the password.
func (c *Conductor) endUnrescue(tx *store.Tx, _ runner.Task, n *node.Node) error {
	n.InstanceInfo = n.InstanceInfo.Without(rescuePasswordKey)
	return c.Move(tx, n, node.OnDone)
}
