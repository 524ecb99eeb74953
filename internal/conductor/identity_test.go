package conductor

import (
	"strings"
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

// TestMachinesThatEarlierReleasesNotedAreClaimedAtTheStart has an engine of a release that notes in a node which machine
// it stands for, and claims nothing, run beside this one until it starts again.
func TestMachinesThatEarlierReleasesNotedAreClaimedAtTheStart(t *testing.T) {
	const uuid = "00112233-4455-6677-8899-aabbccddeeff"
	w := newWorld(t)
	note := func(machine node.MachineIdentity, more string) *node.Node {
		t.Helper()
		n := w.register()
		w.write(func(tx *store.Tx) error {
			before, err := tx.NodeByID(n.ID)
			if err != nil {
				return err
			}
			after := *before
			after.DriverInternalInfo = after.DriverInternalInfo.With(map[string]any{node.MachineIdentityKey: machine, "answer": more})
			return tx.UpdateNode(before, &after)
		})
		return n
	}
	serialIsUUID, nothing, withNUL := node.MachineIdentity{UUID: uuid, SerialNumber: strings.ToUpper(uuid)}, node.MachineIdentity{}, node.MachineIdentity{SerialNumber: "S2"}
	last := node.MachineIdentity{SerialNumber: "S3"} // in another commit than the first ones
	owners := map[node.MachineIdentity]*node.Node{serialIsUUID: note(serialIsUUID, ""), withNUL: note(withNUL, "\x00")}
	for range claimBatch {
		note(nothing, "")
	}
	owners[last] = note(last, "")

	w.restart(func(*Config) {})
	stranger := w.register()
	for machine, owner := range owners {
		if err := w.refuseMachineOfAnother(t.Context(), stranger, machine); err == nil || !strings.Contains(err.Error(), owner.UUID) {
			t.Errorf("machine %+v: %v, want it refused as that of node %s", machine, err, owner.UUID)
		}
	}
}
