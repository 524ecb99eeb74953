package runner

import (
	"context"
	"sync"

	"github.com/ingot-metal/ingot/internal/node"
)

// exclusive keeps this process from calling one machine under two leases at once. A lease can
// expire by the database's clock alone, because somebody put that clock forward or the engine's
// machine slept. Such an end of the lease does not end the calls that are made under it.
type exclusive struct {
	mu    sync.Mutex
	nodes map[int64]*underLease
}

// underLease is what this process does for a node.
type underLease struct {
	epoch int64
	lost  context.CancelCauseFunc
	ended chan struct{}
}

func newExclusive() *exclusive { return &exclusive{nodes: map[int64]*underLease{}} }

// begin ends whatever this process still does for the node under an earlier lease, and waits for
// its end. Lost ends what begins here. If a later lease is in use already, begin returns
// node.ErrLeaseLost. The caller calls end once.
func (e *exclusive) begin(ctx context.Context, nodeID int64, lease node.Lease, lost context.CancelCauseFunc) (end func(), err error) {
	own := &underLease{epoch: lease.Epoch, lost: lost, ended: make(chan struct{})}
	for {
		earlier := e.enter(nodeID, own)
		switch {
		case earlier == nil:
			return func() { e.leave(nodeID, own) }, nil
		case earlier.epoch > own.epoch:
			return nil, node.ErrLeaseLost
		}
		earlier.lost(node.ErrLeaseLost)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-earlier.ended:
		}
	}
}

// enter returns who works on the node, nil when own now does.
func (e *exclusive) enter(nodeID int64, own *underLease) (earlier *underLease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if earlier = e.nodes[nodeID]; earlier == nil {
		e.nodes[nodeID] = own
	}
	return earlier
}

func (e *exclusive) leave(nodeID int64, own *underLease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, nodeID)
	close(own.ended)
}
