package host

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
)

// TestNodeWhoseWorkWaitsIsDeletedFromARealEngine deletes a node in the middle of a cleaning, as a
// forced detachment does.
func TestNodeWhoseWorkWaitsIsDeletedFromARealEngine(t *testing.T) {
	c, id := enrol(t, startEngine(t))
	e, mark := ironic.New(c, ironic.Options{}), provisioner.MarkOf("c1", "metal", "web")
	if _, err := e.Claim(t.Context(), id, mark, provisioner.ClaimOptions{}); err != nil {
		t.Fatal(err)
	}
	reach := func(state node.State, ask func() error) {
		t.Helper()
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(10 * time.Millisecond) {
			n, err := e.Node(t.Context(), id)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("node in state %q, %v; want %q", n.State, err, state)
			}
			if n.State == state && !n.Busy {
				return
			}
		}
	}
	reach(node.Manageable, func() error { return e.Manage(t.Context(), id) })
	reach(node.CleanHold, func() error { return e.Clean(t.Context(), id, []node.Step{{Interface: "deploy", Step: "hold"}}) })
	if err := e.Delete(t.Context(), id, mark); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Node(t.Context(), id); !errors.Is(err, provisioner.ErrNotFound) {
		t.Errorf("read the deleted node: %v", err)
	}
}
