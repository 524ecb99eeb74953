package conductor

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// standFor has a node stand for a machine, as far as no other node does.
func (w *world) standFor(n *node.Node, machine node.MachineIdentity) {
	w.t.Helper()
	w.write(func(tx *store.Tx) error {
		before, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		after := *before
		if err := setIdentity(tx, &after, machine); err != nil {
			return err
		}
		return tx.UpdateNode(before, &after)
	})
}

// TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers has a vendor that gave two machines the same UUID.
func TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers(t *testing.T) {
	const uuid = "4c4c4544-0034-5010-8052-b4c04f4a4d32"
	w := newWorld(t)
	w.standFor(w.register(), node.NewMachineIdentity(uuid, "4PRJM2"))
	n := w.register()
	for serial, refused := range map[string]bool{"4PRJM3": false, "4prjm2": true, "": true} {
		if err := w.refuseMachineOfAnother(t.Context(), n, node.NewMachineIdentity(uuid, serial)); (err != nil) != refused {
			t.Errorf("serial number %q: %v, want it refused: %v", serial, err, refused)
		}
	}

	w.standFor(n, node.NewMachineIdentity(uuid, "4PRJM3"))
	for serial, refused := range map[string]bool{"4PRJM3": false, "4PRJM2": true, "BOARD7": false, "": false} {
		if err := w.refuseMachineOfAnother(t.Context(), w.stored(n.UUID), node.NewMachineIdentity(uuid, serial)); (err != nil) != refused {
			t.Errorf("node that stands for a machine, serial number %q: %v, want it refused: %v", serial, err, refused)
		}
	}
}

// TestOneMachineIsNotedInOneOfTwoNodes has two nodes managed at the same moment, so that each was checked before the
// other had noted the machine.
func TestOneMachineIsNotedInOneOfTwoNodes(t *testing.T) {
	machine := node.MachineIdentity{UUID: "00112233-4455-6677-8899-aabbccddeeff"}
	reversed := node.MachineIdentity{UUID: "ffeeddcc-bbaa-9988-7766-554433221100"}
	w := newWorld(t)
	first, second := w.register(), w.register()
	w.standFor(first, machine)
	w.standFor(second, reversed)
	if got := identityOf(w.stored(first.UUID)); got != machine {
		t.Errorf("the first node stands for %+v, want %+v", got, machine)
	}
	if got := identityOf(w.stored(second.UUID)); got.Known() {
		t.Errorf("the second node stands for %+v, too", got)
	}
	if err := w.refuseMachineOfAnother(t.Context(), second, reversed); err == nil {
		t.Error("the second node may change the machine")
	}

	other := node.MachineIdentity{SerialNumber: "S2"} // the board of the first machine was replaced
	w.standFor(first, other)
	if err := w.refuseMachineOfAnother(t.Context(), second, reversed); err != nil {
		t.Errorf("the first node keeps the machine that it does not stand for any more: %v", err)
	}
}
