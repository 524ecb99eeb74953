package conductor

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// usbLink is an address that each machine of a kind has, where its BMC is a USB NIC.
const usbLink = "02:00:5e:00:53:ff"

// usbLinks are such addresses: one that is locally administered, and one that is assigned.
var usbLinks = map[string]string{"locally administered": usbLink, "assigned": "b0:3a:f2:b6:05:9f"}

// withUSBLink returns a machine with an address of its own and the one that others have, too.
func withUSBLink(number int, link string) machine {
	m := unknown(number)
	m.macs = []string{"00" + m.macs[0][len("02"):], link}
	return m
}

func TestMachinesThatShareAnAddressAreAllEnrolled(t *testing.T) {
	for kind, link := range usbLinks {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			for number := range 3 {
				m := withUSBLink(number, link)
				n := w.enrol(m)
				if n.LastError != "" {
					t.Errorf("machine %d: last_error %q", number, n.LastError)
				}
				wantPorts(t, w, n, map[string]bool{m.macs[0]: true})
			}
			if nodes := w.all(); len(nodes) != 3 {
				t.Errorf("%d nodes, want one for each machine", len(nodes))
			}
		})
	}
}

func TestRegisteredMachinesThatShareAnAddressAreTold(t *testing.T) {
	for kind, link := range usbLinks {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			for number := range 2 {
				m := withUSBLink(number, link)
				n := waiting(w)
				w.addPort(n, m.macs[0])
				answer, err := send(t, w.Conductor, m)
				if err != nil || answer.Node.UUID != n.UUID {
					t.Fatalf("machine %d: answer %+v, %v; want its node", number, answer, err)
				}
				w.awaitWorkDone()
				n = w.arrive(n, node.Manageable)
				wantPorts(t, w, n, map[string]bool{m.macs[0]: true})
				after := *n
				after.ProvisionState = node.CleanWait
				w.update(n, &after)
			}
			for number, n := range w.all() {
				answer, err := w.lookUp(w.portsOf(n)[0].Address, link)
				if err != nil || answer.Node.UUID != n.UUID {
					t.Errorf("lookup %d: answer %+v, %v; want the node", number, answer, err)
				}
			}
		})
	}
}

func TestPortThatAPersonMadeIdentifiesByAnyAddress(t *testing.T) {
	for kind, link := range usbLinks {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			n, m := waiting(w), withUSBLink(1, link)
			w.addPort(n, link)
			if answer, err := w.lookUp(m.macs...); err != nil || answer.Node.UUID != n.UUID {
				t.Errorf("lookup: answer %+v, %v; want the node", answer, err)
			}
			if answer, err := send(t, w.Conductor, m); err != nil || answer.Node.UUID != n.UUID {
				t.Fatalf("post: answer %+v, %v; want the node", answer, err)
			}
			w.awaitWorkDone()
			wantPorts(t, w, w.arrive(n, node.Manageable), map[string]bool{m.macs[0]: true, link: false})
		})
	}
}

func TestPortThatAMachineBootsFromIdentifiesItByAnyAddress(t *testing.T) {
	const boot, replaced = "be:3a:f2:00:00:01", "00:00:5e:00:53:02"
	for name, tc := range map[string]struct {
		macs []string // of the machine that was inspected; it boots from the first
		want bool
	}{
		"it boots from it":       {macs: []string{boot, "00:00:5e:00:53:01"}, want: true},
		"it boots from another":  {macs: []string{"00:00:5e:00:53:01", boot}},
		"it has no other to ask": {macs: []string{boot}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n, m := waiting(w), unknown(1)
			m.macs = tc.macs
			w.addPort(n, boot)
			if _, err := send(t, w.Conductor, m); err != nil {
				t.Fatal(err)
			}
			w.awaitWorkDone()
			n = w.arrive(n, node.Manageable)
			after := *n
			after.ProvisionState = node.CleanWait
			w.update(n, &after)
			answer, err := w.lookUp(replaced, boot)
			if !tc.want {
				wantIs(t, err, node.ErrNotFound)
			} else if err != nil || answer.Node.UUID != n.UUID {
				t.Errorf("lookup with another card: answer %+v, %v; want the node", answer, err)
			}
		})
	}
}

func TestBootPortBesideOnesWithAssignedAddressesIdentifiesNothingByAnotherAddress(t *testing.T) {
	w := newWorld(t)
	n := waiting(w)
	w.write(func(tx *store.Tx) error { // as inspections through BMCs made them in earlier releases
		return tx.AddPorts(n.ID, []*node.Port{
			{UUID: store.NewUUID(), Address: "00:00:5e:00:53:01", PXEEnabled: true}, {UUID: store.NewUUID(), Address: usbLink, PXEEnabled: true},
		})
	})
	_, err := w.lookUp("00:00:5e:00:53:02", usbLink)
	wantIs(t, err, node.ErrNotFound)
}

// TestSharedAddressOfADiscoveredNodeKeepsNoMachineOut gives a discovered node what earlier
// releases gave it: a claim and a port with each address.
func TestSharedAddressOfADiscoveredNodeKeepsNoMachineOut(t *testing.T) {
	for name, state := range map[string]node.State{"provisional": node.Enroll, "accepted": node.Active, "being inspected": node.InspectWait} {
		for kind, link := range usbLinks {
			t.Run(name+", "+kind, func(t *testing.T) {
				w := newWorld(t)
				first := withUSBLink(1, link)
				n := w.enrol(first)
				w.write(func(tx *store.Tx) error {
					if err := tx.ClaimInventory(n.ID, macClaims(first.macs)); err != nil {
						return err
					}
					return tx.AddPorts(n.ID, []*node.Port{{UUID: store.NewUUID(), Address: link}})
				})
				if after := *n; state != node.Enroll {
					after.ProvisionState, after.Provisional = state, false
					w.update(n, &after)
				}
				second := w.enrol(withUSBLink(2, link))
				if diff := cmp.Diff("", second.LastError); diff != "" || second.UUID == n.UUID {
					t.Errorf("node %s, last_error (-want +got):\n%s", second.UUID, diff)
				}
				if state != node.InspectWait {
					_, err := send(t, w.Conductor, first)
					wantIs(t, err, node.ErrNotFound) // it is known
				}
			})
		}
	}
}
