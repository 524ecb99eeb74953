package runner

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// storeWithin limits the time for storing the outcome of a call that a client waits for.
const storeWithin = 10 * time.Second

// Direct makes one call that changes a machine while a client waits, under a lease and without
// work. If the process dies, the client knows that it got no answer. Take runs inside a transaction
// and returns the node, or an error if somebody works on it.
func (r *Runner) Direct(ctx context.Context, n *node.Node, take func(*store.Tx) (*node.Node, error), change Change) error {
	if !r.admit() {
		return &node.UnavailableError{Reason: "This engine is being stopped: please retry."}
	}
	defer r.sessions.Done()
	bounded, cancel := context.WithTimeoutCause(ctx, r.cfg.CallTimeout, r.slow(n))
	defer cancel()
	leave, err := r.gate.Enter(bounded, r.conductor.BMC(n))
	if err != nil {
		return context.Cause(bounded)
	}
	defer leave()
	var lease node.Lease
	asked := time.Now()
	err = r.db.Write(ctx, func(tx *store.Tx) (err error) {
		if n, err = take(tx); err != nil {
			return err
		}
		if lease, err = tx.AcquireLease(n.ID, r.cfg.Hostname, r.cfg.LeaseTTL); err != nil {
			return err
		}
		return tx.SetBusy(&lease, tx.Now().Add(r.cfg.CallTimeout), r.cfg.LeaseTTL/3)
	})
	if err != nil {
		return err
	}
	// The call and the lease end in order even if the client goes.
	watched, lost := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lost(nil)
	r.leases.keepRenewed(lease)
	r.leases.watch(lease, lost)
	defer r.leases.release(lease)
	end, err := r.exclusive.begin(watched, n.ID, lease, lost)
	if err != nil {
		return err
	}
	defer end()
	call, cancelCall := context.WithDeadline(watched, callDeadline(asked, r.cfg.CallTimeout))
	defer cancelCall()
	// The epoch makes the name of the request unique, because epochs never repeat.
	out, failure := change(call, n, driver.Turn{Origin: driver.Origin{
		Conductor: r.cfg.Hostname, Epoch: lease.Epoch, Request: "request " + strconv.FormatInt(lease.Epoch, 10),
	}})
	err = r.endDirect(watched, n, lease, out, failure)
	r.waiters.free(n.UUID)
	if failure != nil {
		return failure
	}
	return err
}

// slow returns the error for a client when the BMC is busy with other calls or does not answer.
func (r *Runner) slow(n *node.Node) error {
	return &node.DriverError{
		Op: "call the BMC of node " + n.UUID, Retryable: true, Refused: true,
		Reason: "earlier calls to it took longer than " + r.cfg.CallTimeout.String() + "; check that it answers, and try again.",
	}
}

// endDirect stores the outcome of a call in the node and gives the lease back.
func (r *Runner) endDirect(ctx context.Context, n *node.Node, lease node.Lease, out driver.Outcome, failure error) error {
	bounded, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	for {
		err := r.db.Write(bounded, func(tx *store.Tx) error {
			before, err := tx.NodeByID(n.ID)
			if err != nil {
				return err
			}
			if !holds(before, lease) {
				return node.ErrLeaseLost
			}
			if failure == nil && out.Apply != nil {
				after := *before
				out.Apply(&after)
				if err := tx.UpdateNode(before, &after); err != nil {
					return err
				}
			}
			return tx.EndLeaseAndBusy(lease) // the call has returned
		})
		if !errors.Is(err, node.ErrUnavailable) || !r.pause(bounded, retryAfter) {
			return err
		}
	}
}

// Ask makes a call that only reads while a client waits. The context of read ends
// Config.CallTimeout after the beginning of Ask, which includes the wait for earlier calls to the
// same BMC.
func (r *Runner) Ask(ctx context.Context, n *node.Node, read func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, r.cfg.CallTimeout, r.slow(n))
	defer cancel()
	leave, err := r.gate.Enter(bounded, r.conductor.BMC(n))
	if err != nil {
		return context.Cause(bounded)
	}
	defer leave()
	return read(bounded)
}

func isLocked(err error) bool { return errors.Is(err, node.ErrLocked) }

func isNotFound(err error) bool { return errors.Is(err, node.ErrNotFound) }
