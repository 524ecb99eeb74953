package conductor

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// TestNothingIsServedAfterABootThatCannotBeUndone aborts inspections whose boot interface
// has a boot to undo, and one that cannot do it.
func TestNothingIsServedAfterABootThatCannotBeUndone(t *testing.T) {
	for boot, remark := range map[string]string{"ipxe": "", "redfish-virtual-media": "could not be removed from it"} {
		w := newWorld(t)
		n := w.register(inState(node.InspectWait), func(n *node.Node) {
			n.Interfaces[node.BootInterface] = boot
			node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
		})
		w.send(n, "abort")
		w.settle()
		got := w.arrive(n, node.InspectFailed)
		if _, serves := node.RamdiskBootOf(got); serves {
			t.Errorf("%s: the boot is served still", boot)
		}
		rows := strings.Join(w.history(n), "\n")
		if !strings.Contains(rows, remark) || strings.Contains(rows, "ERROR boot:") != (remark != "") {
			t.Errorf("%s: history %s", boot, rows)
		}
	}
}
