package conductor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

const foreignMAC = "02:00:00:ff:ff:01"

// macsOf returns the MAC addresses that a node claims.
func (w *world) macsOf(n *node.Node) []string {
	w.t.Helper()
	var macs []string
	w.read(func(tx *store.Tx) (err error) {
		macs, err = tx.MACsOf(n.ID)
		return err
	})
	return macs
}

func (w *world) wantGone(nodes ...*node.Node) {
	w.t.Helper()
	for _, n := range nodes {
		if _, err := w.Node(w.t.Context(), n.UUID); !isNotFound(err) {
			w.t.Errorf("node %s: %v, want it deleted", n.UUID, err)
		}
	}
}

func (w *world) wantRemark(n *node.Node, want string) {
	w.t.Helper()
	if rows := w.history(n); !strings.Contains(strings.Join(rows, "\n"), want) {
		w.t.Errorf("history of node %s = %q, want %q in it", n.UUID, rows, want)
	}
}

func TestPostOfARegisteredNodeIsAcceptedWhateverProvisionalNodesClaim(t *testing.T) {
	const bmc = "198.51.100.9"
	m := unknown(1)
	m.bmc = bmc
	for name, identify := range map[string]func(w *world, n *node.Node, post *node.InspectionPost){
		"node_uuid": func(_ *world, n *node.Node, post *node.InspectionPost) { post.NodeUUID = n.UUID },
		"port":      func(w *world, n *node.Node, _ *node.InspectionPost) { w.addPort(n, foreignMAC) },
		"BMC address": func(w *world, n *node.Node, _ *node.InspectionPost) {
			w.write(func(tx *store.Tx) error {
				return tx.ClaimInspected(n.ID, []store.Claim{{Kind: store.InspectedBMC, Address: bmc}})
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			same := w.enrol(machine{arch: "x86_64", macs: m.macs[:1], bmc: bmc})
			partly := w.enrol(machine{arch: "x86_64", macs: []string{"02:00:00:ff:ff:02", m.macs[1]}})
			n := waiting(w)
			m := m
			if name == "port" {
				m.macs = append([]string{foreignMAC}, m.macs...)
			}
			post := node.InspectionPost{Body: m.body(), Source: netip.MustParseAddr("192.0.2.1")}
			identify(w, n, &post)
			answer, err := w.ContinueInspection(t.Context(), post)
			if err != nil || answer.Node.UUID != n.UUID {
				t.Fatalf("answer = %+v, %v; want the registered node", answer, err)
			}
			w.awaitWorkDone()
			want := map[string]bool{}
			for i, mac := range m.macs {
				want[mac] = i == 0
			}
			wantPorts(t, w, n, want)
			w.wantGone(same)
			w.wantRemark(n, "had been discovered as node "+same.UUID)
			w.wantRemark(n, "node "+partly.UUID+" gave up 1 of its 2 MAC addresses")
			partly = w.stored(partly.UUID)
			if diff := cmp.Diff([]string{"02:00:00:ff:ff:02"}, w.macsOf(partly)); diff != "" {
				t.Errorf("addresses of the provisional node (-want +got):\n%s", diff)
			}
			wantPorts(t, w, partly, map[string]bool{"02:00:00:ff:ff:02": true})
			if !node.IsAddressesTaken(partly.LastError) || !strings.Contains(partly.LastError, n.UUID) || !strings.Contains(partly.LastError, m.macs[len(m.macs)-1]) {
				t.Errorf("last_error = %q, want who took which address", partly.LastError)
			}
			w.wantRemark(partly, partly.LastError)
		})
	}
}

func TestLookupFindsTheRegisteredNodeBesideProvisionalNodes(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	w.enrol(machine{arch: "x86_64", macs: m.macs[1:]})
	n := waiting(w)
	w.addPort(n, m.macs[0])
	answer, err := w.lookUp(m.macs...)
	if err != nil || answer.Node.UUID != n.UUID || answer.Token == "" {
		t.Errorf("answer = %+v, %v; want the registered node with a token", answer, err)
	}
}

// TestProvisionalNodeKeepsNoMachineFromANodeThatASharedAddressTells enrols a node with one address of a
// machine whose registered node is known by a port with another one, which other machines may have.
func TestProvisionalNodeKeepsNoMachineFromANodeThatASharedAddressTells(t *testing.T) {
	for kind, link := range usbLinks {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			m := unknown(1)
			provisional := w.enrol(m)
			m.macs = append(m.macs, link)
			n := waiting(w)
			w.addPort(n, link)
			if answer, err := w.lookUp(m.macs...); err != nil || answer.Node.UUID != n.UUID {
				t.Errorf("lookup: answer %+v, %v; want the registered node", answer, err)
			}
			if answer, err := send(t, w.Conductor, m); err != nil || answer.Node.UUID != n.UUID {
				t.Fatalf("post: answer %+v, %v; want the registered node", answer, err)
			}
			w.awaitWorkDone()
			w.arrive(n, node.Manageable)
			w.wantGone(provisional)
		})
	}
}

func TestDiscoveredMachineBecomesTheNodeThatIsRegisteredForIt(t *testing.T) {
	for name, register := range map[string]func(w *world, mac string) *node.Node{
		"new port": func(w *world, mac string) *node.Node {
			n := w.create("fake-hardware")
			w.addPort(n, mac)
			return n
		},
		"new address of a port": func(w *world, mac string) *node.Node {
			n := w.create("fake-hardware")
			p := w.addPort(n, foreignMAC)
			if _, err := w.UpdatePort(w.t.Context(), p.UUID, func(p *node.Port, _ *node.Node) error {
				p.Address = mac
				return nil
			}); err != nil {
				w.t.Fatal(err)
			}
			return n
		},
		"port of the discovered node": func(w *world, mac string) *node.Node {
			n := w.create("fake-hardware")
			discovered := slices.DeleteFunc(w.all(), func(other *node.Node) bool { return other.UUID == n.UUID })[0]
			ports := w.portsOf(discovered)
			i := slices.IndexFunc(ports, func(p *node.Port) bool { return p.Address == mac })
			if _, err := w.UpdatePort(w.t.Context(), ports[i].UUID, toNode(n.UUID)); err != nil {
				w.t.Fatal(err)
			}
			wantPorts(w.t, w, n, map[string]bool{mac: ports[i].PXEEnabled})
			return n
		},
		"new address of a port that moves": func(w *world, mac string) *node.Node {
			from, n := w.create("fake-hardware"), w.create("fake-hardware")
			p := w.addPort(from, foreignMAC)
			if _, err := w.UpdatePort(w.t.Context(), p.UUID, func(p *node.Port, _ *node.Node) error {
				p.Address, p.NodeUUID = mac, n.UUID
				return nil
			}); err != nil {
				w.t.Fatal(err)
			}
			if err := w.DeleteNode(w.t.Context(), from.UUID); err != nil {
				w.t.Fatal(err)
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := unknown(1)
			discovered := w.enrol(m)
			token := w.token(m)
			n := w.stored(register(w, m.macs[1]).UUID)
			w.wantGone(discovered)
			w.wantInventory(n, m)
			if !n.InspectionFinishedAt.Equal(discovered.InspectionFinishedAt) {
				t.Errorf("inspection finished at %v, want that of the discovered node", n.InspectionFinishedAt)
			}
			w.wantRemark(n, "had been discovered as node "+discovered.UUID+", with 2 MAC addresses; that node became this one with its inventory")
			if err := w.Heartbeat(t.Context(), discovered.UUID, beat(token)); err == nil {
				t.Error("the token of the discovered node still counts")
			}
			_, err := send(t, w.Conductor, m)
			wantIs(t, err, node.ErrNotFound)
			if nodes := w.all(); len(nodes) != 1 {
				t.Errorf("%d nodes, want no second one", len(nodes))
			}
		})
	}
}

func TestInspectedNodeKeepsItsOwnInventory(t *testing.T) {
	w := newWorld(t)
	first, second := unknown(1), unknown(2)
	n := waiting(w)
	w.addPort(n, first.macs[0])
	w.post(first)
	w.awaitWorkDone()
	discovered := w.enrol(second)
	w.addPort(n, second.macs[0])
	w.wantGone(discovered)
	w.wantInventory(n, first)
}

func TestOnlyAPersonAcceptsADiscoveredNode(t *testing.T) {
	update := func(change func(*node.Node)) func(w *world, n *node.Node) error {
		return func(w *world, n *node.Node) error {
			_, err := w.UpdateNode(w.t.Context(), n.UUID, func(n *node.Node) error {
				change(n)
				return nil
			})
			return err
		}
	}
	no := false
	for name, tc := range map[string]struct {
		request func(w *world, n *node.Node) error
		accepts bool
	}{
		"nothing":            {update(func(*node.Node) {}), false},
		"automated_clean":    {update(func(n *node.Node) { n.AutomatedClean = &no }), false},
		"extra":              {update(func(n *node.Node) { n.Extra = node.ObjectOf(map[string]any{"mark": "x"}) }), false},
		"an operator's lock": {update(func(n *node.Node) { n.InstanceUUID = "696e676f-7400-8000-8000-000000000001" }), false},
		"maintenance": {func(w *world, n *node.Node) error {
			return w.SetMaintenance(w.t.Context(), n.UUID, true, "because")
		}, false},
		"manage and provide": {func(w *world, n *node.Node) error {
			w.token(unknown(1)) // its agent is alive
			for _, verb := range []string{"manage", "provide"} {
				if err := provision(w.t, w.Conductor, n.UUID, verb); err != nil {
					return err
				}
				w.awaitWorkDone()
			}
			return nil
		}, false},
		"an allocation": {func(w *world, n *node.Node) error {
			active := *n
			active.ProvisionState = node.Active
			w.update(n, &active)
			_, err := w.Allocations().Create(w.t.Context(), &node.Allocation{NodeUUID: n.UUID})
			return err
		}, true},
		"name":        {update(func(n *node.Node) { n.Name = "rack4" }), true},
		"driver_info": {update(withBMC("198.51.100.9")), true},
		"properties":  {update(func(n *node.Node) { n.Properties = node.ObjectOf(map[string]any{"rack": 4}) }), true},
		"a port": {func(w *world, n *node.Node) error {
			_, err := w.CreatePort(w.t.Context(), &node.Port{NodeUUID: n.UUID, Address: foreignMAC})
			return err
		}, true},
		"a change of a port": {func(w *world, n *node.Node) error {
			_, err := w.UpdatePort(w.t.Context(), w.portsOf(n)[0].UUID, func(p *node.Port, _ *node.Node) error {
				p.PhysicalNetwork = "lab"
				return nil
			})
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := unknown(1)
			n := w.enrol(m)
			if err := tc.request(w, n); err != nil {
				t.Fatal(err)
			}
			if got := !w.stored(n.UUID).Provisional; got != tc.accepts {
				t.Errorf("accepted: %v, want %v", got, tc.accepts)
			}
			if got := strings.Contains(strings.Join(w.history(n), "\n"), "Accepted: "); got != tc.accepts {
				t.Errorf("history = %q, want the acceptance in it: %v", w.history(n), tc.accepts)
			}
			registered := w.create("fake-hardware")
			_, err := w.CreatePort(t.Context(), &node.Port{NodeUUID: registered.UUID, Address: m.macs[0]})
			if conflict := err != nil; conflict != tc.accepts {
				t.Errorf("port of a registered node with its address: %v, want a conflict: %v", err, tc.accepts)
			}
		})
	}
}

func TestVerbsBeyondAnImportAcceptADiscoveredNode(t *testing.T) {
	for _, name := range []string{"manage", "provide", "inspect", "clean", "active", "rescue", "adopt", "service", "abort"} {
		verb, ok := node.VerbNamed(name)
		if want := name != "manage" && name != "provide"; !ok || verb.Accepts() != want {
			t.Errorf("verb %s (%v) accepts: %v, want %v", name, ok, verb.Accepts(), want)
		}
	}
}

func TestNodeUnderWorkLosesItsAddressesAndIsKept(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	m := unknown(1)
	answer, err := send(t, w.Conductor, m) // its hooks have not run yet
	if err != nil {
		t.Fatal(err)
	}
	provisional := answer.Node
	n := w.register(inState(node.InspectWait))
	if _, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: m.body(), NodeUUID: n.UUID, Source: netip.MustParseAddr("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	w.run(w.Conductor)
	w.clock.Advance(time.Hour) // nobody keeps the leases
	w.awaitWorkDone()
	wantPorts(t, w, n, map[string]bool{m.macs[0]: true, m.macs[1]: false})
	provisional = w.stored(provisional.UUID)
	if got := w.macsOf(provisional); len(got) != 0 {
		t.Errorf("addresses = %v, want none", got)
	}
	if !node.IsAddressesTaken(provisional.LastError) || !strings.HasSuffix(provisional.LastError, "None is left: delete this node.") {
		t.Errorf("last_error = %q, want what was taken, also after the hooks", provisional.LastError)
	}
}

func TestImportKeepsWhatADiscoveredNodeHasLost(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	discovered := w.enrol(m)
	w.token(m) // its agent is alive
	part := machine{arch: "x86_64", macs: m.macs[:1]}
	if _, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: part.body(), NodeUUID: waiting(w).UUID, Source: netip.MustParseAddr("192.0.2.1")}); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	for _, verb := range []string{"manage", "provide"} {
		if err := provision(t, w.Conductor, discovered.UUID, verb); err != nil {
			t.Fatal(err)
		}
		w.awaitWorkDone()
	}
	if n := w.stored(discovered.UUID); n.ProvisionState != node.Available || !node.IsAddressesTaken(n.LastError) {
		t.Errorf("state %q, last_error = %q, want available, and what was taken", n.ProvisionState, n.LastError)
	}
	w.wantRemark(discovered, `The node is "available"`)
	if err := provision(t, w.Conductor, discovered.UUID, "manage"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.UpdateNode(t.Context(), discovered.UUID, func(n *node.Node) error { n.Name = "rack4"; return nil }); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if err := provision(t, w.Conductor, discovered.UUID, "provide"); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if n := w.stored(discovered.UUID); n.LastError != "" {
		t.Errorf("last_error of the accepted node = %q, want none", n.LastError)
	}
}

func TestNodeUnderWorkLosesOnlyTheAddressOfANewPort(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	discovered := w.enrol(m)
	w.lease(discovered, "conductor-2")
	n := w.create("fake-hardware")
	w.addPort(n, m.macs[0])
	wantPorts(t, w, n, map[string]bool{m.macs[0]: false})
	wantPorts(t, w, discovered, map[string]bool{m.macs[1]: false})
	if stored := w.stored(discovered.UUID); !node.IsAddressesTaken(stored.LastError) || !strings.Contains(stored.LastError, "It keeps 1") {
		t.Errorf("last_error = %q, want what was taken", stored.LastError)
	}
	w.wantInventory(discovered, m)
}

func TestHooksThatRanBeforeANodeLostItsAddressesMakeNoPorts(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	w.write(func(tx *store.Tx) error { return tx.ReleaseMACs(n.ID, unknown(1).macs[:1]) })
	result := &inspect.Result{PortsToCreate: []inspect.Port{{Address: unknown(1).macs[0]}}}
	w.write(func(tx *store.Tx) error {
		return w.storePorts(tx, n, &processing{ports: &store.MachinePorts{}}, result)
	})
	wantPorts(t, w, n, map[string]bool{unknown(1).macs[1]: false})
	n.Provisional = false // it has been accepted since the hooks ran
	ran := &processing{ports: &store.MachinePorts{}, input: inspect.Input{Claimed: map[string]bool{unknown(1).macs[0]: true}}}
	w.write(func(tx *store.Tx) error { return w.storePorts(tx, n, ran, result) })
	wantPorts(t, w, n, map[string]bool{unknown(1).macs[1]: false})
	ran.input.Claimed = nil
	w.write(func(tx *store.Tx) error { return w.storePorts(tx, n, ran, result) })
	wantPorts(t, w, n, map[string]bool{unknown(1).macs[0]: false, unknown(1).macs[1]: false})
}

func TestUnregisteredMachineHasABoundedNumberOfAddresses(t *testing.T) {
	const count, bound = 2000, 64
	var observer listener
	w := newWorld(t, func(c *Config) { c.Observer = &observer })
	m := machine{arch: "x86_64"}
	for i := range count {
		m.macs = append(m.macs, fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&0xff))
	}
	boot := m.macs[count-1]
	body := strings.Replace(string(m.body()), fmt.Sprintf(`"pxe_interface":%q`, m.macs[0]), fmt.Sprintf(`"pxe_interface":%q`, boot), 1)
	answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte(body), Source: netip.MustParseAddr("192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	n := w.stored(answer.Node.UUID)
	pxe := map[string]bool{}
	for _, p := range w.portsOf(n) {
		pxe[p.Address] = p.PXEEnabled
	}
	if macs := w.macsOf(n); len(macs) != bound || len(pxe) != bound || !pxe[boot] {
		t.Errorf("%d addresses and %d ports, boot interface %v; want %d with the boot interface", len(macs), len(pxe), pxe[boot], bound)
	}
	leftOut := 0
	if n.DriverInternalInfo.Get(node.AddressesLeftOutKey, &leftOut); leftOut != count-bound {
		t.Errorf("driver_internal_info = %s, want %d left out", n.DriverInternalInfo, count-bound)
	}
	w.wantRemark(n, "claims 64 of its MAC addresses and leaves out 1936 (auto_discovery.max_ports)")
	observer.mu.Lock()
	if !slices.Contains(observer.notices, "left out 1936") {
		t.Errorf("notices %q", observer.notices)
	}
	observer.mu.Unlock()
	data, err := w.Inspection(t.Context(), n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Interfaces []json.RawMessage `json:"interfaces"`
	}
	if err := json.Unmarshal(data.Inventory, &found); err != nil || len(found.Interfaces) != count {
		t.Errorf("%d interfaces in the inventory, %v; want all", len(found.Interfaces), err)
	}
	if added := strings.Count(string(data.PluginData), `"is_added":true`); added != bound {
		t.Errorf("%d interfaces are said to have a port, want %d", added, bound)
	}
	if _, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
		n.Name = "rack4"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	n = w.inspectAgain(n, m)
	if ports := w.portsOf(n); len(ports) != count || n.LastError != "" {
		t.Errorf("%d ports after a person took the node, last_error %q; want all", len(ports), n.LastError)
	}
	if strings.Contains(n.DriverInternalInfo.String(), node.AddressesLeftOutKey) {
		t.Errorf("driver_internal_info = %s, want nothing left out", n.DriverInternalInfo)
	}
}
