package conductor

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestNoObjectIsRemovedUntilAPersonKeepsTheRestoredDatabase(t *testing.T) {
	w, server := inObjects(t)
	n := w.enrol(unknown(1))
	w.clock.Advance(w.cfg.Inventories.removalDelay())
	if err := w.Stop(t.Context()); err != nil { // from here on this test is the garbage loop
		t.Fatal(err)
	}
	if err := w.DeleteNode(t.Context(), n.UUID); err != nil {
		t.Fatal(err)
	}
	w.write(func(tx *store.Tx) error {
		_, _, err := tx.Suspend(node.Restored, "of a test")
		return err
	})
	w.removeGarbage(t.Context())
	if got := server.Objects(); len(got) != 1 {
		t.Errorf("objects %q, want the one that the replaced database may need", got)
	}
	w.resume()
	w.removeGarbage(t.Context())
	if got := server.Objects(); len(got) != 0 {
		t.Errorf("objects %q after a person let it go on", got)
	}
}
