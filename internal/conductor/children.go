package conductor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// listedSteps returns the client's list with what the drivers know of each step.
// Steps for child nodes name all of these from then on: children that come and go
// later do not change what is to be done.
func (s *session) listedSteps(ctx context.Context, offered []node.Step) ([]node.Step, error) {
	steps, err := node.ListedSteps(askedSteps(s.j), offered)
	if err != nil || !slices.ContainsFunc(steps, func(step node.Step) bool { return step.ExecuteOnChildNodes }) {
		return steps, err
	}
	var children []*node.Node
	err = s.store.Read(ctx, func(tx *store.Tx) (err error) {
		children, err = tx.Nodes(node.Query{Filters: []node.Filter{{Field: "parent_node", Value: s.n.UUID}}})
		return err
	})
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

// chooseChildren returns the UUIDs of the children that a step runs on.
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
			return nil, node.Invalid("The step %s is to run on node %s, which is no child of this one.", step.Name(), node.CutText(ident))
		}
		chosen = append(chosen, children[i].UUID)
	}
	return chosen, nil
}

// childOperation runs a step on a child node. The child is under work from the
// first turn to the last; the node's own lease does not cover it.
func (s *session) childOperation(f flow, step node.Step, uuid string) operation {
	step.ExecuteOnChildNodes, step.LimitChildNodeExecution = false, nil
	run := s.stepOperation(f, step)
	return func(ctx context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
		epoch, phase, _ := strings.Cut(turn.Phase, " ")
		child, lease, err := s.leaseChild(ctx, uuid, epoch)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("child node %s: %w", uuid, err)
		}
		s.queue.hold(lease)
		defer s.queue.drop(lease)
		turn.Phase = phase
		out, failure := s.childTurn(ctx, f, step, child, turn, run)
		if failure != nil {
			out = driver.Outcome{}
		}
		kept := !out.Done()
		if err := s.endChildTurn(ctx, child, lease, out, kept); err != nil && failure == nil {
			return driver.Outcome{}, err
		}
		if failure != nil {
			return driver.Outcome{}, fmt.Errorf("child node %s: %w", uuid, failure)
		}
		out.Apply = nil
		s.j.child = node.Lease{}
		if kept {
			s.j.child, out.Phase = lease, strconv.FormatInt(lease.Epoch, 10)+" "+out.Phase
		}
		return out, nil
	}
}

// leaseChild returns a child under a lease of this conductor: the one of the turn
// before, or a new one.
func (s *session) leaseChild(ctx context.Context, uuid, epoch string) (child *node.Node, lease node.Lease, err error) {
	err = s.retryLocked(ctx, func() error {
		return s.store.Write(ctx, func(tx *store.Tx) (err error) {
			child, err = tx.Node(uuid)
			switch {
			case isNotFound(err):
				return node.Invalid("it was deleted.")
			case err != nil:
				return err
			case child.ParentNode != s.n.UUID:
				return node.Invalid("it is no child of node %s any more.", s.n.UUID)
			}
			if mine, err := s.serves(tx, child.ConductorGroup); err != nil || !mine {
				return cmp.Or(err, node.Invalid("its conductor group %q is not that of its parent, whose conductors cannot reach it.", child.ConductorGroup))
			}
			if lease = child.Lease; lease.Held(tx.Now()) && lease.Owner == s.cfg.Hostname && strconv.FormatInt(lease.Epoch, 10) == epoch {
				return nil
			}
			lease, err = tx.AcquireLease(child.ID, s.cfg.Hostname, s.cfg.LeaseTTL)
			return err
		})
	})
	return child, lease, err
}

// childTurn makes one turn of a step on a child. A child has no provision state of
// its own for this, so that it cannot wait for its ramdisk.
func (s *session) childTurn(ctx context.Context, f flow, step node.Step, child *node.Node, turn driver.Turn, run operation) (driver.Outcome, error) {
	if turn.First {
		if _, err := node.ListedSteps([]node.Step{step}, s.drivers.Steps(child, f.kind)); err != nil {
			return driver.Outcome{}, err
		}
	}
	out, err := run(ctx, child, turn)
	if err == nil && out.Callback {
		return driver.Outcome{}, node.Invalid("the step waits for the machine's ramdisk, which steps on child nodes cannot.")
	}
	out.Again, out.Park = max(out.Again, out.Park), 0
	return out, err
}

// endChildTurn stores what a turn made of a child, and gives the child back unless
// another turn follows.
func (s *session) endChildTurn(ctx context.Context, child *node.Node, lease node.Lease, out driver.Outcome, kept bool) error {
	if kept && out.Apply == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackWithin)
	defer cancel()
	return s.store.Write(bounded, func(tx *store.Tx) error {
		before, err := leased(tx, job{Work: &store.Work{NodeID: child.ID, Lease: lease}})
		if err != nil {
			return err
		}
		after := *before
		if out.Apply != nil {
			out.Apply(&after)
		}
		if err := tx.UpdateNode(before, &after); err != nil {
			return err
		}
		if kept {
			return nil
		}
		return tx.ReleaseLease(lease)
	})
}

// giveBackWithin bounds giving a child back, which happens also when the work on
// its parent is told to end.
const giveBackWithin = 10 * time.Second
