package conductor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestUnknownMachineIsEnrolledAndInspected(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	m.bmc = "198.51.100.9"
	answer, err := send(t, w.Conductor, m)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Token != "" || answer.HeartbeatTimeout != heartbeatTimeout {
		t.Errorf("answer = %+v, want no token for the old version", answer)
	}
	w.awaitWorkDone()
	n := w.stored(answer.Node.UUID)
	got := node.Node{
		Driver: n.Driver, ProvisionState: n.ProvisionState, TargetProvisionState: n.TargetProvisionState, AutoDiscovered: n.AutoDiscovered,
		LastError: n.LastError, Properties: n.Properties, Lease: n.Lease,
		InspectionStartedAt: n.InspectionStartedAt, InspectionFinishedAt: n.InspectionFinishedAt, ProvisionUpdatedAt: n.ProvisionUpdatedAt,
	}
	now := w.clock.Now()
	want := node.Node{
		Driver: "manual-management", ProvisionState: node.Enroll, AutoDiscovered: true,
		Properties:          node.ObjectOf(map[string]any{"cpu_arch": "x86_64"}),
		InspectionStartedAt: now, InspectionFinishedAt: now, ProvisionUpdatedAt: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	if n.Interfaces[node.PowerInterface] != "agent" || n.Interfaces[node.DeployInterface] == "" {
		t.Errorf("interfaces = %v, want the driver's defaults", n.Interfaces)
	}
	wantPorts(t, w, n, map[string]bool{m.macs[0]: true, m.macs[1]: false})
	if diff := cmp.Diff([]string{"INFO discovery: Enrolled: an unknown machine posted its inventory."}, w.history(n)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	data, err := w.Inspection(t.Context(), n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if string(data.Inventory) != m.inventory() {
		t.Errorf("inventory = %s, want it as sent", data.Inventory)
	}
	var pluginData map[string]any
	if err := json.Unmarshal(data.PluginData, &pluginData); err != nil {
		t.Fatal(err)
	}
	if pluginData["auto_discovered"] != true || pluginData["root_disk"] == nil || pluginData["macs"] == nil || pluginData["logs"] != nil {
		t.Errorf("plugin data = %v, want what the agent sent and the hooks found, without logs", pluginData)
	}
	w.read(func(tx *store.Tx) error {
		for _, claim := range []store.Claim{{Kind: store.MAC, Address: m.macs[0]}, {Kind: store.MAC, Address: m.macs[1]}, {Kind: store.BMC, Address: m.bmc}} {
			if matches, err := tx.MatchClaims([]store.Claim{claim}); err != nil || len(matches) != 1 || matches[0].UUID != n.UUID {
				t.Errorf("claim %v matches %v, %v; want the node", claim, matches, err)
			}
		}
		return nil
	})
}

// wantPorts compares a node's ports, as pxe_enabled by address.
func wantPorts(t *testing.T, w *world, n *node.Node, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for _, p := range w.portsOf(n) {
		got[p.Address] = p.PXEEnabled
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestUnknownMachineIsNotFoundWithoutDiscovery(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Discovery.Enabled = false })
	_, err := send(t, w.Conductor, unknown(1))
	wantIs(t, err, node.ErrNotFound)
	if nodes := w.all(); len(nodes) != 0 || w.works() != 0 {
		t.Errorf("%d nodes and %d pieces of work, want nothing written", len(nodes), w.works())
	}
}

func TestSecondPostOfAMachineIsNotFound(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	before := w.stored(n.UUID)
	w.clock.Advance(time.Hour)
	partly := unknown(1)
	partly.macs = []string{"02:00:00:00:00:99", partly.macs[1]}
	for _, m := range []machine{unknown(1), partly} {
		_, err := send(t, w.Conductor, m)
		wantIs(t, err, node.ErrNotFound)
	}
	if nodes := w.all(); len(nodes) != 1 {
		t.Errorf("%d nodes, want one", len(nodes))
	}
	if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

func TestManyPostsOfOneMachineAtOnceGiveOneNode(t *testing.T) {
	w := newWorld(t)
	const posts = 50
	answered := concurrently(posts, func(int) error {
		_, err := send(t, w.Conductor, unknown(1))
		return err
	})
	for _, err := range answered[1:] { // sorted: success first
		wantIs(t, err, node.ErrNotFound)
	}
	if answered[0] != nil {
		t.Errorf("best answer = %v, want one success", answered[0])
	}
	w.awaitWorkDone()
	if nodes := w.all(); len(nodes) != 1 || len(w.portsOf(nodes[0])) != 2 {
		t.Errorf("%d nodes, want one with its ports", len(nodes))
	}
}

func TestDiscoveredFakeHardwareIsInspectedAndDeployedThroughItsRamdisk(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Discovery.Driver = "fake-hardware" })
	n := w.enrol(unknown(1))
	for kind, want := range map[node.InterfaceKind]string{node.InspectInterface: "agent", node.BootInterface: "ipxe", node.DeployInterface: "direct"} {
		if got := n.Interfaces[kind]; got != want {
			t.Errorf("%s: got %q, want %q", kind.Field(), got, want)
		}
	}
}

// concurrently runs fn count times at once and returns the errors, nil ones
// first.
func concurrently(count int, fn func(i int) error) []error {
	errs := make([]error, count)
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { errs[i] = fn(i) })
	}
	running.Wait()
	slices.SortStableFunc(errs, func(a, b error) int {
		switch {
		case a == nil && b != nil:
			return -1
		case a != nil && b == nil:
			return 1
		}
		return 0
	})
	return errs
}

func TestManyMachinesAtOnceAreAllInspected(t *testing.T) {
	w := newWorld(t)
	const machines = 200 // more than keep their document in memory
	for _, err := range concurrently(machines, func(i int) error {
		_, err := send(t, w.Conductor, unknown(i))
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	w.awaitWorkDone()
	nodes := w.all()
	if len(nodes) != machines {
		t.Errorf("%d nodes, want %d", len(nodes), machines)
	}
	for _, n := range nodes {
		if n.InspectionFinishedAt.IsZero() || len(w.portsOf(n)) != 2 {
			t.Errorf("node %s has no result or not its two ports", n.UUID)
		}
	}
}

func TestFailedHookLeavesTheReasonAndTheDocument(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*machine)
		want  string
	}{
		"hook":    {func(m *machine) { m.arch = "" }, "Failed to finish inspection: architecture: "},
		"ramdisk": {func(m *machine) { m.failure = "no disks" }, "Failed to finish inspection: ramdisk-error: the ramdisk reported: no disks"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := unknown(1)
			tc.spoil(&m)
			n := w.enrol(m)
			if !strings.HasPrefix(n.LastError, tc.want) || n.ProvisionState != node.Enroll || !n.InspectionFinishedAt.IsZero() || n.Lease != (node.Lease{}) {
				t.Errorf("node is in %q with last_error %q, want enroll and the hook's reason", n.ProvisionState, n.LastError)
			}
			if got := w.history(n); len(got) != 2 || got[1] != "ERROR inspect: "+n.LastError {
				t.Errorf("history = %q, want the failure in it", got)
			}
			if ports := w.portsOf(n); len(ports) != 0 {
				t.Errorf("%d ports of a failed inspection", len(ports))
			}
			_, err := w.Inspection(t.Context(), n.UUID)
			wantIs(t, err, node.ErrNotFound)
			w.read(func(tx *store.Tx) error {
				document, err := tx.LastDocument(n)
				if err == nil && string(document.Inventory) != m.inventory() {
					t.Errorf("document = %s, want it as posted", document.Inventory)
				}
				return err
			})
		})
	}
}

// waiting registers a node whose inspection waits for a post.
func waiting(w *world, changes ...func(*node.Node)) *node.Node {
	w.t.Helper()
	n := w.register(append([]func(*node.Node){func(n *node.Node) {
		n.ProvisionState, n.TargetProvisionState, n.LastError = node.InspectWait, node.Manageable, "stale"
	}}, changes...)...)
	w.write(func(tx *store.Tx) error {
		after := *n
		if err := setBMCAddresses(tx, &after, inspect.BMCAddresses(n.DriverInfo)); err != nil {
			return err
		}
		return tx.UpdateNode(n, &after)
	})
	return n
}

func withBMC(address string) func(*node.Node) {
	return func(n *node.Node) {
		n.DriverInfo = node.ObjectOf(map[string]any{"redfish_address": "https://" + address})
	}
}

func (w *world) addPort(n *node.Node, mac string) *node.Port {
	w.t.Helper()
	p, err := w.CreatePort(w.t.Context(), &node.Port{NodeUUID: n.UUID, Address: mac})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func TestWaitingNodeAcceptsThePostOfItsMachine(t *testing.T) {
	w := newWorld(t)
	n := waiting(w, func(n *node.Node) { n.Properties = node.ObjectOf(map[string]any{"rack": 4}) })
	m := unknown(1)
	w.addPort(n, m.macs[1])
	w.clock.Advance(time.Minute)
	body := bytes.Replace(m.body(), []byte(`"error"`), []byte(`"auto_discovered":true,"error"`), 1)
	answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: body, Source: netip.MustParseAddr("192.0.2.1")})
	if err != nil || answer.Node.UUID != n.UUID {
		t.Fatalf("answer = %+v, %v; want the node", answer, err)
	}
	w.awaitWorkDone()
	n = w.stored(n.UUID)
	if n.ProvisionState != node.Manageable || n.TargetProvisionState != "" || n.LastError != "" || n.AutoDiscovered {
		t.Errorf("node is in %q, target %q, last_error %q; want manageable and clean", n.ProvisionState, n.TargetProvisionState, n.LastError)
	}
	if !n.InspectionFinishedAt.Equal(w.clock.Now()) || !n.ProvisionUpdatedAt.Equal(w.clock.Now()) {
		t.Errorf("finished at %v, state since %v; want now", n.InspectionFinishedAt, n.ProvisionUpdatedAt)
	}
	if got := n.Properties.Values(); got["cpu_arch"] != "x86_64" || got["rack"] == nil {
		t.Errorf("properties = %v, want the new one beside the old", got)
	}
	wantPorts(t, w, n, map[string]bool{m.macs[0]: true, m.macs[1]: false})
	w.wantDiscovered(n, false)
}

func TestFailedInspectionOfAWaitingNode(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	m.arch = ""
	n := waiting(w)
	w.addPort(n, m.macs[0])
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if n = w.stored(n.UUID); n.ProvisionState != node.InspectFailed || n.TargetProvisionState != node.Manageable || !strings.Contains(n.LastError, "architecture") {
		t.Errorf("node is in %q, target %q, last_error %q", n.ProvisionState, n.TargetProvisionState, n.LastError)
	}
}

func TestPostIsMatchedToExactlyOneNode(t *testing.T) {
	const bmc = "198.51.100.9"
	withPort := func(w *world, n *node.Node) *node.Node {
		w.addPort(n, unknown(1).macs[0])
		return n
	}
	for name, tc := range map[string]struct {
		prepare func(w *world) (accepted *node.Node) // nil: not found
		asked   func(n *node.Node) string
	}{
		"by BMC alone":           {prepare: func(w *world) *node.Node { return waiting(w, withBMC(bmc)) }},
		"by port, BMC elsewhere": {prepare: func(w *world) *node.Node { return withPort(w, waiting(w, withBMC("198.51.100.8"))) }},
		"by port, of a shared BMC": {prepare: func(w *world) *node.Node {
			waiting(w, withBMC(bmc))
			return withPort(w, waiting(w, withBMC(bmc)))
		}},
		"by UUID":                  {prepare: func(w *world) *node.Node { return waiting(w) }, asked: func(n *node.Node) string { return n.UUID }},
		"BMC of two waiting nodes": {prepare: func(w *world) *node.Node { waiting(w, withBMC(bmc)); waiting(w, withBMC(bmc)); return nil }},
		"BMC of a resting node":    {prepare: func(w *world) *node.Node { w.register(withBMC(bmc)); return nil }},
		"port of a resting node":   {prepare: func(w *world) *node.Node { withPort(w, w.register(inState(node.Available))); return nil }},
		"port here, BMC there": {prepare: func(w *world) *node.Node {
			waiting(w, withBMC(bmc))
			withPort(w, waiting(w))
			return nil
		}},
		"ports of two nodes": {prepare: func(w *world) *node.Node {
			withPort(w, waiting(w))
			w.addPort(waiting(w), unknown(1).macs[1])
			return nil
		}},
		"UUID here, port there": {prepare: func(w *world) *node.Node { withPort(w, waiting(w)); return nil }, asked: func(*node.Node) string { return "asked" }},
		"unknown UUID":          {prepare: func(*world) *node.Node { return nil }, asked: func(*node.Node) string { return "2e9f0d3c-0000-4000-8000-000000000000" }},
		"name for a UUID": {prepare: func(w *world) *node.Node {
			waiting(w, func(n *node.Node) { n.Name = "rack4" })
			return nil
		}, asked: func(*node.Node) string { return "rack4" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := tc.prepare(w)
			before := w.all()
			asked := ""
			if tc.asked != nil {
				asked = tc.asked(want)
			}
			if asked == "asked" {
				asked = waiting(w).UUID
				before = w.all()
			}
			m := unknown(1)
			m.bmc = bmc
			answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: m.body(), NodeUUID: asked})
			if want == nil {
				wantIs(t, err, node.ErrNotFound)
				if err.Error() != errNoMatch.Error() {
					t.Errorf("error = %q, want the same as for every machine", err)
				}
				if diff := cmp.Diff(before, w.all()); diff != "" {
					t.Errorf("nodes (-before +after):\n%s", diff)
				}
				return
			}
			if err != nil || answer.Node.UUID != want.UUID {
				t.Fatalf("answer = %+v, %v; want node %s", answer, err, want.UUID)
			}
			w.awaitWorkDone()
			if got := w.stored(want.UUID); got.ProvisionState != node.Manageable {
				t.Errorf("node is in %q: %s", got.ProvisionState, got.LastError)
			}
		})
	}
}

func TestNewVersionAnswersWithAToken(t *testing.T) {
	w := newWorld(t)
	answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(1).body(), WantsToken: true})
	if err != nil || len(answer.Token) < 32 {
		t.Fatalf("answer = %+v, %v; want a token", answer, err)
	}
	w.awaitWorkDone()
	if err := w.Heartbeat(t.Context(), answer.Node.UUID, beat(answer.Token)); err != nil {
		t.Errorf("heartbeat with that token: %v", err)
	}
	n := waiting(w)
	answer, err = w.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(2).body(), NodeUUID: n.UUID, WantsToken: true})
	if err != nil || len(answer.Token) < 32 {
		t.Fatalf("answer for a waiting node = %+v, %v; want a token", answer, err)
	}
}

func TestUnusableDocumentsAreRefusedAndNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	for name, body := range map[string]string{
		"empty": ``, "no JSON": `hello`, "array": `[]`, "no inventory": `{}`, "inventory null": `{"inventory":null}`,
		"no interfaces": `{"inventory":{"interfaces":[]}}`, "no MAC": `{"inventory":{"interfaces":[{"name":"eth0"}]}}`,
		"wrong type": `{"inventory":{"interfaces":{"a":1}}}`, "trailing": string(unknown(1).body()) + "x",
		"deep": `{"inventory":{"interfaces":[{"mac_address":"02:00:00:00:00:01","x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}]}}`,
	} {
		_, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte(body)})
		var invalid *node.ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: error = %v, want a validation error", name, err)
		}
	}
	if nodes := w.all(); len(nodes) != 0 || w.works() != 0 {
		t.Errorf("%d nodes, want nothing written", len(nodes))
	}
	w.enrol(unknown(1)) // and the conductor goes on
}

func TestMachineWithThousandsOfInterfaces(t *testing.T) {
	const count = 2000
	w := newWorld(t, func(c *Config) { c.Discovery.MaxPorts = count })
	m := machine{arch: "x86_64"}
	for i := range count {
		m.macs = append(m.macs, fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&0xff))
	}
	n := w.enrol(m)
	if ports := w.portsOf(n); len(ports) != count || n.LastError != "" {
		t.Errorf("%d ports, last_error %q; want %d ports", len(ports), n.LastError, count)
	}
	_, err := send(t, w.Conductor, m)
	wantIs(t, err, node.ErrNotFound)
}

func TestEnrolmentsAreBoundedInRate(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Discovery.Rate, c.Discovery.Burst = 0.1, 3 })
	known := waiting(w)
	w.addPort(known, unknown(900).macs[0])
	for range 5 { // what is no inventory, and machines that are not enrolled, take nothing of the rate
		_, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte(`{}`)})
		if errors.Is(err, node.ErrBusy) {
			t.Fatalf("a post without inventory: %v", err)
		}
	}
	for i := range 3 {
		if _, err := send(t, w.Conductor, unknown(i)); err != nil {
			t.Fatalf("unknown machine %d: %v", i, err)
		}
	}
	_, err := send(t, w.Conductor, unknown(3))
	wantIs(t, err, node.ErrBusy)
	if _, err := send(t, w.Conductor, unknown(900)); err != nil {
		t.Errorf("post of a machine that an inspection waits for: %v", err)
	}
	w.clock.Advance(10 * time.Second)
	if _, err := send(t, w.Conductor, unknown(3)); err != nil {
		t.Errorf("unknown machine when there is room again: %v", err)
	}
	_, err = send(t, w.Conductor, unknown(4))
	wantIs(t, err, node.ErrBusy)
}

func TestDiscoveredNodesAreBoundedInNumber(t *testing.T) {
	const most = 5
	bound := func(c *Config) { c.Discovery.MaxNodes = most }
	w := newWorld(t, bound)
	waitingNode := waiting(w)
	w.addPort(waitingNode, unknown(900).macs[0])
	answered := concurrently(40, func(i int) error {
		_, err := send(t, w.Conductor, unknown(i))
		return err
	})
	for i, err := range answered {
		if i < most && err != nil || i >= most && !errors.Is(err, node.ErrBusy) {
			t.Errorf("answer %d = %v, want %d enrolled and the others busy", i, err, most)
		}
	}
	w.awaitWorkDone()
	nodes := w.all()[1:]
	if len(nodes) != most {
		t.Fatalf("%d discovered nodes, want %d", len(nodes), most)
	}
	if _, err := send(t, w.Conductor, unknown(900)); err != nil {
		t.Errorf("post of a registered machine: %v, want it accepted over the bound", err)
	}
	w.awaitWorkDone()
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	w.Conductor = w.start("conductor-1", bound)
	_, err := send(t, w.Conductor, unknown(100))
	wantIs(t, err, node.ErrBusy)
	if err := w.DeleteNode(t.Context(), nodes[0].UUID); err != nil {
		t.Fatal(err)
	}
	w.enrol(unknown(100))
	_, err = send(t, w.Conductor, unknown(101))
	wantIs(t, err, node.ErrBusy)
}

func TestDeletedMachineIsDiscoveredAgain(t *testing.T) {
	w := newWorld(t)
	first := w.enrol(unknown(1))
	if err := w.DeleteNode(t.Context(), first.UUID); err != nil {
		t.Fatal(err)
	}
	if second := w.enrol(unknown(1)); second.UUID == first.UUID || len(w.portsOf(second)) != 2 {
		t.Errorf("node %s after %s, want a new one with its ports", second.UUID, first.UUID)
	}
}

func TestPostForALockedNodeIsRefusedAsLocked(t *testing.T) {
	w := newWorld(t)
	n := waiting(w)
	w.lease(n, "conductor-2")
	_, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: unknown(1).body(), NodeUUID: n.UUID})
	if locked := errorAs[*node.LockedError](t, err); locked.Holder != "conductor-2" {
		t.Errorf("error = %v, want it to name the holder", err)
	}
	if got := w.stored(n.UUID).ProvisionState; got != node.InspectWait {
		t.Errorf("node is in %q", got)
	}
}

func TestDiscoveryWithADriverThatIsNotEnabledWritesNothing(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Discovery.Driver = "redfish" })
	if _, err := send(t, w.Conductor, unknown(1)); err == nil {
		t.Error("no error")
	}
	if nodes := w.all(); len(nodes) != 0 {
		t.Errorf("%d nodes, want none", len(nodes))
	}
}
