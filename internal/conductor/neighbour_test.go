package conductor

import (
	"strings"
	"testing"

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
	w.claimDue(t.Context())
	if got := w.stored(n.UUID); w.works() != 1 || got.LastError != "" || got.Lease != (node.Lease{}) {
		t.Fatalf("node = %+v, want it left to the other conductor", got)
	}

	w.clock.Advance(2 * aliveFor) // the other one is gone
	w.wakeClaim()
	w.settle()
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanFailed || !strings.Contains(got.LastError, `"polish"`) {
		t.Errorf("node is in %q with last_error %q, want it failed with the reason", got.ProvisionState, got.LastError)
	}
}
