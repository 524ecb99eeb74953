package conductor

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// inspected registers a node, whose port has the first address of the machine, and takes
// the post of that machine.
func (w *world) inspected(m machine) *node.Node {
	w.t.Helper()
	n := waiting(w)
	w.addPort(n, m.macs[0])
	return w.inspectAgain(n, m)
}

// portWith returns the port of a node with this address.
func (w *world) portWith(n *node.Node, mac string) *node.Port {
	w.t.Helper()
	ports := w.portsOf(n)
	i := slices.IndexFunc(ports, func(p *node.Port) bool { return p.Address == mac })
	if i < 0 {
		w.t.Fatalf("node %s has no port with %s", n.UUID, mac)
	}
	return ports[i]
}

func (w *world) deletePort(n *node.Node, mac string) {
	w.t.Helper()
	if err := w.DeletePort(w.t.Context(), w.portWith(n, mac).UUID); err != nil {
		w.t.Fatal(err)
	}
}

// updatePort changes the port of a node with this address.
func (w *world) updatePort(n *node.Node, mac string, change func(*node.Port)) {
	w.t.Helper()
	if _, err := w.UpdatePort(w.t.Context(), w.portWith(n, mac).UUID, func(p *node.Port, _ *node.Node) error {
		change(p)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantMACs(n *node.Node, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.macsOf(n)); diff != "" {
		w.t.Errorf("addresses of node %s (-want +got):\n%s", n.UUID, diff)
	}
}

// wantFound checks that a lookup with these addresses finds the node.
func (w *world) wantFound(n *node.Node, macs ...string) {
	w.t.Helper()
	answer, err := w.Lookup(w.t.Context(), node.LookupRequest{Addresses: macs})
	if err != nil || answer.Node.UUID != n.UUID {
		w.t.Errorf("lookup with %q: %+v, %v; want node %s", macs, answer, err, n.UUID)
	}
}

func TestCardThatMovedBelongsToTheNodeOfItsPort(t *testing.T) {
	first, second := unknown(1), unknown(2)
	card := first.macs[1]
	for name, move := range map[string]func(w *world, from, to *node.Node){
		"its port moves": func(w *world, from, to *node.Node) {
			w.updatePort(from, card, func(p *node.Port) { p.NodeUUID = to.UUID })
		},
		"its port is deleted, and created for the other node": func(w *world, from, to *node.Node) {
			w.deletePort(from, card)
			w.addPort(to, card)
		},
		"a port of the other node gets its address": func(w *world, from, to *node.Node) {
			w.deletePort(from, card)
			w.addPort(to, foreignMAC)
			w.updatePort(to, foreignMAC, func(p *node.Port) { p.Address = card })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			from, to := w.inspected(first), w.inspected(second)
			move(w, from, to)
			w.wantMACs(from, first.macs[0])
			w.wantRemark(from, "The MAC address "+card+" is that of a port of node "+to.UUID+" now")
			w.wantMACs(to, card, second.macs[0], second.macs[1])
			w.await(to)
			w.wantFound(to, card)
			to = w.inspectAgain(to, machine{arch: "x86_64", macs: []string{second.macs[0], card}})
			if to.ProvisionState != node.Manageable || to.LastError != "" {
				t.Errorf("state %q, last_error %q; want the node inspected", to.ProvisionState, to.LastError)
			}
			w.deletePort(to, card)
			w.await(to)
			w.wantFound(to, card)
			w.inspectAgain(from, machine{arch: "x86_64", macs: first.macs[:1]})
		})
	}
}

func TestPortThatMovesWithANewAddressLeavesTheOldOneToItsMachine(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	from, to := w.inspected(m), w.create("fake-hardware")
	w.updatePort(from, m.macs[1], func(p *node.Port) { p.NodeUUID, p.Address = to.UUID, foreignMAC })
	w.wantMACs(from, m.macs...)
	w.wantMACs(to, foreignMAC)
}

func TestMachinesWithTheSameAddressOfTheirBMCsAreToldApartByTheirPorts(t *testing.T) {
	const shared = "02:00:00:00:ff:ff"
	w := newWorld(t)
	one := machine{arch: "x86_64", macs: []string{"02:00:00:00:01:01", shared}}
	two := machine{arch: "x86_64", macs: []string{"02:00:00:00:02:01", shared}}
	first := w.inspected(one)
	w.deletePort(first, shared) // or add_ports is pxe
	second := waiting(w)
	w.addPort(second, two.macs[0])
	w.wantFound(second, two.macs...)
	second = w.inspectAgain(second, two)
	wantPorts(t, w, second, map[string]bool{two.macs[0]: true})
	w.wantMACs(first, one.macs...)
	w.wantMACs(second, two.macs[0])
	w.wantInventory(second, two)
	for range 2 { // also when both were inspected
		first = w.inspectAgain(first, one)
		w.deletePort(first, shared)
		second = w.inspectAgain(second, two)
	}
	w.await(first)
	w.await(second)
	w.wantFound(first, one.macs...)
	w.wantFound(second, two.macs...)
	w.addPort(second, shared)
	w.wantMACs(first, one.macs[0])
	_, err := w.lookUp(one.macs...) // ports of both
	wantIs(t, err, node.ErrNotFound)
}

// TestForgedPostTakesNothingFromAnInspectedNode names the addresses of a node whose ports
// were deleted beside that of a node which waits for a post.
func TestForgedPostTakesNothingFromAnInspectedNode(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	known, victim := w.inspected(m), waiting(w)
	for _, mac := range m.macs {
		w.deletePort(known, mac)
	}
	w.addPort(victim, foreignMAC)
	forged := machine{arch: "x86_64", macs: append([]string{foreignMAC}, m.macs...)}
	answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: forged.body(), Source: netip.MustParseAddr("192.0.2.1")})
	if err != nil || answer.Node.UUID != victim.UUID {
		t.Fatalf("answer = %+v, %v; want the node with the port", answer, err)
	}
	w.awaitWorkDone()
	wantPorts(t, w, victim, map[string]bool{foreignMAC: true})
	w.wantMACs(victim, foreignMAC)
	w.wantMACs(known, m.macs...)
	w.await(known)
	w.wantFound(known, m.macs...)
	known = w.inspectAgain(known, m)
	wantPorts(t, w, known, map[string]bool{m.macs[0]: true, m.macs[1]: false})
}
