package conductor

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers has a vendor that gave two machines the same UUID.
func TestMachinesThatShareAUUIDAreToldApartByTheirSerialNumbers(t *testing.T) {
	const uuid = "4c4c4544-0034-5010-8052-b4c04f4a4d32"
	w := newWorld(t)
	w.register(func(n *node.Node) { setIdentity(n, node.NewMachineIdentity(uuid, "4PRJM2")) })
	n := w.register()
	for serial, refused := range map[string]bool{"4PRJM3": false, "4prjm2": true, "": true} {
		if err := w.refuseMachineOfAnother(t.Context(), n, node.NewMachineIdentity(uuid, serial)); (err != nil) != refused {
			t.Errorf("serial number %q: %v, want it refused: %v", serial, err, refused)
		}
	}
}
