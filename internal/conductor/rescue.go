package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// rescuePasswordKey is where instance_info keeps the password of the rescue
// system, for as long as it may run.
const rescuePasswordKey = "rescue_password"

// runRescue starts the rescue system.
func runRescue(ctx context.Context, s *session) error {
	return s.rescueWork(ctx, driver.Rescue.Rescue, func(*node.Node) {})
}

// runUnrescue starts the instance again and forgets the password.
func runUnrescue(ctx context.Context, s *session) error {
	return s.rescueWork(ctx, driver.Rescue.Unrescue, func(n *node.Node) {
		n.InstanceInfo = n.InstanceInfo.Without(rescuePasswordKey)
	})
}

func (s *session) rescueWork(ctx context.Context, do func(driver.Rescue, context.Context, *node.Node, driver.Turn) (driver.Outcome, error), done func(*node.Node)) error {
	err := s.perform(ctx, nil, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		rescue, err := driver.Ability[driver.Rescue](s.drivers, n, node.RescueInterface, "rescue")
		if err != nil {
			return driver.Outcome{}, err
		}
		return do(rescue, ctx, n, turn)
	})
	if err == nil {
		err = switchOn(ctx, s)
	}
	if err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		done(n)
		return s.move(tx, n, node.OnDone)
	})
}
