package conductor

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestWorkOfANewerVersionIsLeftToIt has a conductor of a newer version, which lives,
// ask for work that this version does not know.
func TestWorkOfANewerVersionIsLeftToIt(t *testing.T) {
	w := newWorld(t)
	newer := node.Conductor{Hostname: "conductor-2"}
	n := w.register(inState(node.Cleaning))
	w.write(func(tx *store.Tx) error {
		if err := tx.RegisterConductor(newer); err != nil {
			return err
		}
		return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "polish"})
	})
	w.runner.ClaimDue(t.Context())
	if got := w.stored(n.UUID); w.works() != 1 || got.LastError != "" || got.Lease != (node.Lease{}) {
		t.Fatalf("node = %+v, want it left to the other conductor", got)
	}

	w.outlive()
	w.runner.ClaimDue(t.Context())
	w.eventually("the work to be left alone", func() bool {
		return w.runner.ClaimDue(t.Context()) > time.Millisecond && len(w.runner.Load().Leases) == 0
	})
	if got := w.stored(n.UUID); w.works() != 1 || got.ProvisionState != node.Cleaning || got.LastError != "" {
		t.Errorf("node is in %q with last_error %q, want it as it was", got.ProvisionState, got.LastError)
	}
}
