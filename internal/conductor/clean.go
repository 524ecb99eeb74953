package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// runClean runs the client's clean steps, or those that the node's drivers run by
// themselves.
func runClean(ctx context.Context, s *session) error {
	var manual bool
	s.j.Intent.Get(manualIntent, &manual)
	err := s.runSteps(ctx, cleanFlow, func() ([]node.Step, error) {
		offered := s.drivers.Steps(s.n, driver.CleanSteps)
		switch {
		case manual:
			return s.listedSteps(ctx, offered)
		case !s.cleans(s.n):
			return nil, nil
		}
		return node.SortSteps(offered), nil
	})
	if err != nil {
		return err
	}
	settings, err := s.lookAgain(ctx)
	if err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		endSteps(n)
		if err := settings.store(tx, n); err != nil {
			return err
		}
		if manual || n.Retired {
			return s.move(tx, n, node.OnManage)
		}
		return s.move(tx, n, node.OnDone)
	})
}

// cleans reports whether automated cleaning is on for the node.
func (c *Conductor) cleans(n *node.Node) bool {
	if n.AutomatedClean != nil {
		return *n.AutomatedClean
	}
	return c.cfg.AutomatedClean
}

// runService runs the client's service steps and starts the instance again.
func runService(ctx context.Context, s *session) error {
	err := s.runSteps(ctx, serviceFlow, func() ([]node.Step, error) {
		return s.listedSteps(ctx, s.drivers.Steps(s.n, driver.ServiceSteps))
	})
	if err == nil {
		err = switchOn(ctx, s)
	}
	if err != nil {
		return err
	}
	settings, err := s.lookAgain(ctx)
	if err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		endSteps(n)
		if err := settings.store(tx, n); err != nil {
			return err
		}
		return s.move(tx, n, node.OnDone)
	})
}
