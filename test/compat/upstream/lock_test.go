//go:build compat

package upstream_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	provisioning "github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
)

// TestDebiansIronicLetsOneOfManyOperatorsTakeANode lets operators of several clusters lock nodes at
// the same moment, and compares the result with what the operator relies on.
func TestDebiansIronicLetsOneOfManyOperatorsTakeANode(t *testing.T) {
	d := startDebianIronic(t)
	client, err := ironic.New(ironic.Options{Endpoint: d.url()})
	must(t, "make client", err)
	engine := provisioning.New(client, provisioning.Options{})
	const nodes, operators = 5, 6
	for range nodes {
		created, err := client.CreateNode(t.Context(), ironic.Document{"driver": "ipmi"})
		must(t, "create node", err)
		id := created.UUID
		marks := make([]provisioner.Mark, operators)
		errs := make([]error, operators)
		var all sync.WaitGroup
		for i := range operators {
			marks[i] = provisioner.MarkOf(fmt.Sprint("c", i), "metal", "web")
			all.Go(func() {
				for { // Ironic reserves the node for each request
					_, errs[i] = engine.Lock(t.Context(), id, marks[i])
					if !errors.Is(errs[i], provisioner.ErrBusy) {
						return
					}
				}
			})
		}
		all.Wait()
		owner := -1
		for i, err := range errs {
			switch {
			case err == nil && owner >= 0:
				t.Errorf("operators %d and %d have locked the node", owner, i)
			case err == nil:
				owner = i
			case !errors.Is(err, provisioner.ErrNotOwned):
				t.Errorf("operator %d: %v", i, err)
			}
		}
		if owner < 0 {
			t.Fatalf("nobody has locked the node: %v", errs)
		}
		mine, other := marks[owner], marks[(owner+1)%operators]
		n, err := engine.Lock(t.Context(), id, mine) // as if an answer were lost
		must(t, "lock again", err)
		if n.InstanceID != mine.Lock(id) || n.Mark != "" {
			t.Errorf("locked node has the instance %q and the mark %q", n.InstanceID, n.Mark)
		}
		n, err = engine.Claim(t.Context(), id, mine, provisioner.ClaimOptions{Unlock: true})
		must(t, "claim", err)
		if n.InstanceID != "" || n.Mark != mine {
			t.Errorf("claimed node has the instance %q and the mark %q", n.InstanceID, n.Mark)
		}
		n, err = engine.Lock(t.Context(), id, other)
		must(t, "lock too late", err)
		if n.Mark != mine {
			t.Errorf("who comes too late sees the mark %q, want %q", n.Mark, mine)
		}
		must(t, "unlock", engine.Unlock(t.Context(), id, other))
		n, err = engine.Node(t.Context(), id)
		must(t, "read node", err)
		if n.InstanceID != "" || n.Mark != mine {
			t.Errorf("node has the instance %q and the mark %q at the end", n.InstanceID, n.Mark)
		}
		must(t, "delete", engine.Delete(t.Context(), id, mine))
	}
}
