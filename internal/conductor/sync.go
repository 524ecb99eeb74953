package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// How power states are read in the background.
const (
	syncWorkers     = 8
	syncPage        = 500              // nodes read from the database at once
	powerReadWithin = 30 * time.Second // bound of reading one machine
)

// unsyncedStates are the states in which the power is somebody else's, or nobody
// vouches for the machine yet.
var unsyncedStates = []node.State{node.DeployWait, node.CleanWait, node.Enroll, node.AdoptFailed}

// synced reports whether the node's power state is read in the background.
func synced(n *node.Node, now time.Time) bool {
	return !n.Maintenance && n.TargetPowerState == "" && !n.Lease.Held(now) && !slices.Contains(unsyncedStates, n.ProvisionState)
}

// syncAction is what follows from reading a machine's power state.
type syncAction int

const (
	syncNothing syncAction = iota
	syncStore              // keep what was observed
	syncRestore            // bring the machine to what the node says
)

// decideSync compares what a machine shows with what its node says.
func decideSync(n *node.Node, observed node.PowerState, accept bool) syncAction {
	switch {
	case observed == n.PowerState:
		return syncNothing
	case accept, n.PowerState != node.PowerOn && n.PowerState != node.PowerOff:
		return syncStore
	case n.DisablePowerOff && n.PowerState == node.PowerOff:
		return syncStore
	}
	return syncRestore
}

// powerFailures counts reads of power states that failed in a row.
type powerFailures struct {
	mu    sync.Mutex
	count map[int64]int // by node key
}

// add counts a failure and returns how many there were.
func (f *powerFailures) add(id int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[int64]int{}
	}
	f.count[id]++
	return f.count[id]
}

func (f *powerFailures) clear(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.count, id)
}

// syncLoop reads power states at their interval, and tries faulty nodes again at
// theirs.
func (c *Conductor) syncLoop(ctx context.Context) {
	if c.cfg.Limits.PowerSync < 0 {
		return
	}
	states, faults := time.NewTicker(c.cfg.Limits.PowerSync), time.NewTicker(c.cfg.Limits.PowerRecovery)
	defer states.Stop()
	defer faults.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-states.C:
			c.sweep(ctx, node.Filter{Field: "maintenance", Value: false}, c.syncPower)
		case <-faults.C:
			c.sweep(ctx, node.Filter{Field: "fault", Value: node.FaultPowerFailure}, c.recoverPower)
		}
	}
}

// sweep calls do for the nodes that fit and that this conductor watches.
func (c *Conductor) sweep(ctx context.Context, filter node.Filter, do func(context.Context, *node.Node) error) {
	nodes := make(chan *node.Node)
	var workers sync.WaitGroup
	for range syncWorkers {
		workers.Go(func() {
			for n := range nodes {
				if err := do(ctx, n); err != nil && ctx.Err() == nil && !errors.Is(err, node.ErrLocked) && !errors.Is(err, node.ErrNotFound) {
					c.log.Warn("Power state could not be kept in step", "node", n.UUID, "err", err)
				}
			}
		})
	}
	defer workers.Wait()
	defer close(nodes)
	query := node.Query{Filters: []node.Filter{filter}, Limit: syncPage}
	for {
		var page []*node.Node
		var alive []node.Conductor
		err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
			if page, err = tx.Nodes(query); err == nil {
				alive, err = tx.Conductors(aliveFor)
			}
			return err
		})
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, node.ErrNotFound) { // the marker may be gone
				c.log.Error("Nodes to keep in step could not be read", "err", err)
			}
			return
		}
		for _, n := range page {
			if watcher(n, alive) != c.cfg.Hostname {
				continue
			}
			select {
			case nodes <- n:
			case <-ctx.Done():
				return
			}
		}
		if len(page) < syncPage {
			return
		}
		query.Marker = page[len(page)-1].UUID
	}
}

// observePower reads the power state of a machine that can be switched. Ok is
// false for one that cannot: nothing of it can be kept in step.
func (c *Conductor) observePower(ctx context.Context, n *node.Node) (state node.PowerState, ok bool, err error) {
	power, err := c.drivers.Power(n)
	if err != nil {
		return "", false, nil //nolint:nilerr // not built, or not chosen: verifying the node tells
	}
	supported := power.Supported()
	if !slices.Contains(supported, node.PowerOn) || !slices.Contains(supported, node.PowerOff) {
		return "", false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, powerReadWithin)
	defer cancel()
	state, err = power.PowerState(ctx, n)
	return state, true, err
}

// syncPower keeps one node and its machine in step.
func (c *Conductor) syncPower(ctx context.Context, n *node.Node) error {
	if !synced(n, c.store.Now()) {
		return nil
	}
	observed, ok, err := c.observePower(ctx, n)
	if !ok || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		if c.failures.add(n.ID) < c.cfg.Limits.PowerSyncTries {
			return nil
		}
		c.failures.clear(n.ID)
		return c.markPowerFailure(ctx, n, err)
	}
	c.failures.clear(n.ID)
	switch decideSync(n, observed, c.cfg.Limits.AcceptPower) {
	case syncStore:
		return c.ifStillSynced(ctx, n, func(tx *store.Tx, after *node.Node) error {
			message := fmt.Sprintf("The machine was found in %q, which is kept.", observed)
			after.PowerState = observed
			return c.record(tx, after, node.SeverityInfo, "power", message)
		})
	case syncRestore:
		return c.restorePower(ctx, n, observed)
	case syncNothing:
	}
	return nil
}

// ifStillSynced changes a node whose power state nobody has touched since n was
// read.
func (c *Conductor) ifStillSynced(ctx context.Context, n *node.Node, change func(*store.Tx, *node.Node) error) error {
	return c.store.Write(ctx, func(tx *store.Tx) error {
		before, err := unleased(tx, n.UUID)
		if err != nil {
			return err
		}
		if !synced(before, tx.Now()) || before.PowerState != n.PowerState {
			return nil
		}
		after := *before
		if err := change(tx, &after); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	})
}

func (c *Conductor) markPowerFailure(ctx context.Context, n *node.Node, cause error) error {
	return c.ifStillSynced(ctx, n, func(tx *store.Tx, after *node.Node) error {
		reason := node.CutText(fmt.Sprintf("The power state of node %s could not be read %d times: %v", n.UUID, c.cfg.Limits.PowerSyncTries, cause))
		after.PowerState = node.PowerError
		after.Maintenance, after.Fault, after.MaintenanceReason, after.LastError = true, node.FaultPowerFailure, reason, reason
		return c.record(tx, after, node.SeverityError, "power", reason)
	})
}

// restorePower brings the machine back to what the node says.
func (c *Conductor) restorePower(ctx context.Context, n *node.Node, observed node.PowerState) error {
	var started *job
	err := c.ifStillSynced(ctx, n, func(tx *store.Tx, after *node.Node) (err error) {
		started = nil
		after.TargetPowerState = n.PowerState
		if started, err = c.startServed(tx, after, workPower, node.ObjectOf(map[string]any{powerTargetIntent: n.PowerState})); err != nil {
			return err
		}
		return c.record(tx, after, node.SeverityInfo, "power",
			fmt.Sprintf("The machine was found in %q although nobody asked the engine for it; it is brought back to %q.", observed, n.PowerState))
	})
	if err == nil {
		c.enqueueStarted(started)
	}
	return err
}

// recoverPower ends the maintenance of a node whose BMC answers again.
func (c *Conductor) recoverPower(ctx context.Context, n *node.Node) error {
	observed, ok, err := c.observePower(ctx, n)
	if !ok || err != nil {
		return nil //nolint:nilerr // it is faulty because of such errors
	}
	return c.store.Write(ctx, func(tx *store.Tx) error {
		before, err := unleased(tx, n.UUID)
		if err != nil {
			return err
		}
		if before.Fault != node.FaultPowerFailure {
			return nil
		}
		after := *before
		after.PowerState = observed
		after.Maintenance, after.Fault, after.MaintenanceReason, after.LastError = false, "", "", ""
		if err := c.record(tx, &after, node.SeverityInfo, "power", "The power state can be read again; maintenance is over."); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	})
}
