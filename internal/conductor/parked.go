package conductor

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// waitsForPerson reports whether the stored work of a node is suspended or is about to be. It is
// about to be when the database was put back to an older state and no count has noticed that
// yet: until then, nothing that the database asks for may begin.
func waitsForPerson(tx *store.Tx, n *node.Node) (bool, error) {
	if n.Lease.Suspended() {
		return true, nil
	}
	return tx.WasRestored()
}

// unhold resumes held work after the step that held it.
func (c *Conductor) unhold(tx *store.Tx, n *node.Node) (*runner.Job, error) {
	if waits, err := waitsForPerson(tx, n); err != nil {
		return nil, err
	} else if waits {
		return nil, &node.SuspendedError{Node: n.UUID}
	}
	return c.wakeParked(tx, n, func(checkpoint string) (string, bool, error) { return checkpoint, true, nil })
}

// wakeParked resumes the parked work of a node. Wake turns the stored checkpoint into the one to
// resume from, or refuses. wakeParked returns nil when there is no parked work, when wake refuses,
// or when other conductors serve the node and will find the work in the database.
func (c *Conductor) wakeParked(tx *store.Tx, n *node.Node, wake func(checkpoint string) (string, bool, error)) (*runner.Job, error) {
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return nil, err
	}
	for _, w := range works {
		if !c.drivesState(w.Kind) {
			continue
		}
		checkpoint, woken, err := wake(w.Checkpoint)
		if err != nil || !woken {
			return nil, err
		}
		w.NodeUUID, w.Checkpoint, w.NotBefore = n.UUID, checkpoint, tx.Now()
		if err := tx.CheckpointWork(w); err != nil {
			return nil, err
		}
		if mine, err := c.serves(tx, n.ConductorGroup); err != nil || !mine {
			return nil, err
		}
		if w.Lease, err = tx.AcquireLease(n.ID, c.cfg.Hostname, c.cfg.LeaseTTL); err != nil {
			return nil, err
		}
		return runner.NewJob(w, nil, nil), nil
	}
	return nil, nil
}

// dropParked removes the parked work of a node when something else has ended that work.
func (c *Conductor) dropParked(tx *store.Tx, nodeID int64) error {
	return tx.DropWork(nodeID, slices.DeleteFunc(c.Kinds(), func(kind store.WorkKind) bool { return !c.drivesState(kind) }))
}
