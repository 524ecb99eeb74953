package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// listedSteps returns the client's list of steps, completed from the drivers'
// descriptions of them. A step for child nodes gets the UUIDs of the children that it runs
// on, so that children that are added or removed later change nothing.
func listedSteps(tx *store.Tx, w *store.Work, n *node.Node, offered []node.Step) ([]node.Step, error) {
	steps, err := node.ListedSteps(askedSteps(w), offered)
	if err != nil || !slices.ContainsFunc(steps, func(step node.Step) bool { return step.ExecuteOnChildNodes }) {
		return steps, err
	}
	children, err := tx.Nodes(node.Query{Filters: []node.Filter{{Field: "parent_node", Value: n.UUID}}})
	if err != nil {
		return nil, err
	}
	for i, step := range steps {
		if !step.ExecuteOnChildNodes {
			continue
		}
		if steps[i].LimitChildNodeExecution, err = chooseChildren(step, children); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// chooseChildren returns the UUIDs of the children that a step runs on: those that it names,
// or all when it names none.
func chooseChildren(step node.Step, children []*node.Node) ([]string, error) {
	var chosen []string
	if len(step.LimitChildNodeExecution) == 0 {
		for _, child := range children {
			chosen = append(chosen, child.UUID)
		}
		return chosen, nil
	}
	for _, ident := range step.LimitChildNodeExecution {
		i := slices.IndexFunc(children, func(child *node.Node) bool {
			return child.UUID == strings.ToLower(ident) || child.Name == ident && ident != ""
		})
		if i < 0 {
			return nil, node.Invalid("The step %s names node %s as a child, which it is not.", step.Name(), node.CutText(ident))
		}
		chosen = append(chosen, children[i].UUID)
	}
	return chosen, nil
}

// childOperations runs a step on child nodes, one after the other. Each child has a
// lease of its own from the first turn to the last; the lease of the parent does not
// cover it.
func (c *Conductor) childOperations(f flow, i int, step node.Step, of runner.Operation) []runner.Operation {
	children := step.LimitChildNodeExecution
	step.ExecuteOnChildNodes, step.LimitChildNodeExecution = false, nil
	run := c.stepChange(f, step)
	operations := make([]runner.Operation, len(children))
	for at, child := range children {
		operations[at] = of
		operations[at].Ref, operations[at].Child, operations[at].CheckChild = stepRef(i, step, child), child, c.checkChild
		operations[at].Change = func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			if turn.Attempt == driver.Fresh {
				if _, err := node.ListedSteps([]node.Step{step}, c.drivers.Steps(n, f.kind)); err != nil {
					return driver.Outcome{}, fmt.Errorf("child node %s: %w", child, err)
				}
			}
			out, err := run(ctx, n, turn)
			if err != nil {
				err = fmt.Errorf("child node %s: %w", child, err)
			}
			return out, err
		}
	}
	return operations
}

// checkChild refuses a node that is no longer a child of the parent, or that only other
// conductors reach. It also refuses a child whose own work goes on, even while that work
// waits without a lease. This refusal alone may pass, so it is no *node.ValidationError.
func (c *Conductor) checkChild(tx *store.Tx, parent, child *node.Node) error {
	if child.ParentNode != parent.UUID {
		return node.Invalid("it is no longer a child of node %s.", parent.UUID)
	}
	switch child.ProvisionState.Class() {
	case node.Working, node.Waiting, node.Held:
		return fmt.Errorf("it is in state %q, its own work goes on", child.ProvisionState)
	case node.Stable, node.Failed:
		if err := c.refuseDuringOtherWork(tx, child); isLocked(err) {
			return errors.New("its own work is to be tried again")
		} else if err != nil {
			return err
		}
	}
	mine, err := c.serves(tx, child.ConductorGroup)
	if err == nil && !mine {
		err = node.Invalid("its conductor group is %q, so the conductors of its parent cannot reach it.", child.ConductorGroup)
	}
	return err
}
