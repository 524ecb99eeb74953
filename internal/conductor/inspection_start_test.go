package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// agentNode registers a node that its ramdisk inspects.
func (w *world) agentNode(info map[string]any, changes ...func(*node.Node)) *node.Node {
	w.t.Helper()
	return w.fake(node.Manageable, info, append([]func(*node.Node){func(n *node.Node) {
		n.Interfaces[node.InspectInterface] = "agent"
	}}, changes...)...)
}

// keptAddresses returns the BMC addresses that a node keeps for lookup, and how
// many of them the index of lookups has.
func (w *world) keptAddresses(n *node.Node) (kept []string, indexed int) {
	w.t.Helper()
	n = w.stored(n.UUID)
	n.DriverInternalInfo.Get(bmcAddressesKey, &kept)
	for _, address := range append([]string{"192.0.2.17", "192.0.2.18", "2001:db8::17", "192.0.2.99"}, kept...) {
		w.read(func(tx *store.Tx) error {
			matches, err := tx.MatchClaims([]store.Claim{{Kind: store.InspectedBMC, Address: address}})
			if slices.ContainsFunc(matches, func(m store.ClaimMatch) bool { return m.UUID == n.UUID }) && !slices.Contains(kept, address) {
				w.t.Errorf("the index has %s, which the node does not keep", address)
			}
			return err
		})
	}
	for _, address := range kept {
		w.read(func(tx *store.Tx) error {
			matches, err := tx.MatchClaims([]store.Claim{{Kind: store.InspectedBMC, Address: address}})
			if len(matches) > 0 {
				indexed++
			}
			return err
		})
	}
	return kept, indexed
}

func TestInspectionFindsOutWhereTheBMCIs(t *testing.T) {
	for name, tc := range map[string]struct {
		info    map[string]any
		want    []string
		history string
	}{
		"none":    {},
		"literal": {info: map[string]any{"ipmi_address": "192.0.2.99"}, want: []string{"192.0.2.99"}},
		"name":    {info: map[string]any{"redfish_address": "https://bmc1.example.com:8443/redfish/v1"}, want: []string{"192.0.2.17", "2001:db8::17"}},
		"name and literal": {
			info: map[string]any{"redfish_address": "bmc2.example.com", "ipmi_address": "[2001:db8::17]:623"}, want: []string{"192.0.2.18", "2001:db8::17"},
		},
		"loopback": {info: map[string]any{"redfish_address": "local.example.com"}},
		"bridged":  {info: map[string]any{"ipmi_address": "bmc1.example.com", "ipmi_bridging": "single"}},
		"unknown name": {
			info: map[string]any{"redfish_address": "gone.example.com", "ipmi_address": "192.0.2.99"}, want: []string{"192.0.2.99"},
			history: "ERROR inspection: The BMC address gone.example.com could not be resolved: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withNames(t))
			n := w.agentNode(tc.info)
			w.send(n, "inspect")
			if got := w.arrive(n, node.InspectWait); got.LastError != "" {
				t.Errorf("last_error = %q", got.LastError)
			}
			kept, indexed := w.keptAddresses(n)
			if diff := cmp.Diff(tc.want, kept); diff != "" || indexed != len(tc.want) {
				t.Errorf("%d indexed, addresses (-want +got):\n%s", indexed, diff)
			}
			rows := strings.Join(w.remarks(n), "\n")
			if !strings.Contains(rows, tc.history) || (tc.history == "") != (rows == "") {
				t.Errorf("history = %q, want %q", rows, tc.history)
			}
			if told := strings.HasSuffix(rows, ": no such host. This inspection cannot match the machine by that address."); told != (tc.history != "") {
				t.Errorf("history = %q, want two sentences about the name", rows)
			}
		})
	}
}

// TestAddressesOfBMCsAreForgottenWhenInspectionEnds ends inspection in every way
// there is.
func TestAddressesOfBMCsAreForgottenWhenInspectionEnds(t *testing.T) {
	post := func(change func(*machine)) func(*world, *node.Node) {
		return func(w *world, _ *node.Node) {
			m := unknown(1)
			m.bmc = "192.0.2.17"
			change(&m)
			if _, err := send(w.t, w.Conductor, m); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		end  func(*world, *node.Node)
		want node.State // "": deleted
	}{
		"done":        {post(func(*machine) {}), node.Manageable},
		"hook failed": {post(func(m *machine) { m.arch = "" }), node.InspectFailed},
		"aborted":     {func(w *world, n *node.Node) { w.send(n, "abort") }, node.InspectFailed},
		"timed out":   {func(w *world, _ *node.Node) { w.pass(time.Hour) }, node.InspectFailed},
		"deleted": {func(w *world, n *node.Node) {
			if err := w.SetMaintenance(w.t.Context(), n.UUID, true, ""); err != nil {
				w.t.Fatal(err)
			}
			if err := w.DeleteNode(w.t.Context(), n.UUID); err != nil {
				w.t.Fatal(err)
			}
		}, ""},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				w := newWorld(t, withNames(t))
				n := w.agentNode(map[string]any{"redfish_address": "bmc1.example.com"})
				w.send(n, "inspect")
				w.arrive(n, node.InspectWait)
				if restart {
					if err := w.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					w.reopen()
					w.Conductor = w.start("conductor-2", withNames(t))
				}
				if _, indexed := w.keptAddresses(n); indexed != 2 {
					t.Fatalf("%d addresses indexed, want 2", indexed)
				}
				tc.end(w, n)
				w.awaitWorkDone()
				if tc.want != "" {
					w.arrive(n, tc.want)
					if kept, _ := w.keptAddresses(n); len(kept) > 0 {
						t.Errorf("the node keeps %v", kept)
					}
				}
				w.read(func(tx *store.Tx) error {
					matches, err := tx.MatchClaims([]store.Claim{{Kind: store.InspectedBMC, Address: "192.0.2.17"}})
					if len(matches) > 0 {
						t.Errorf("the index still has %v", matches)
					}
					return err
				})
			})
		}
	}
}

// TestMachineIsFoundByTheNameOfItsBMC tells two nodes without ports apart.
func TestMachineIsFoundByTheNameOfItsBMC(t *testing.T) {
	w := newWorld(t, withNames(t))
	other := w.agentNode(map[string]any{"redfish_address": "bmc2.example.com"})
	n := w.agentNode(map[string]any{"redfish_address": "bmc1.example.com"})
	for _, n := range []*node.Node{other, n} {
		w.send(n, "inspect")
		w.arrive(n, node.InspectWait)
	}
	m := unknown(1)
	m.bmc = "192.0.2.17"
	answer, err := send(t, w.Conductor, m)
	if err != nil || answer.Node.UUID != n.UUID {
		t.Fatalf("answer = %+v, %v; want the node", answer, err)
	}
	w.arrive(n, node.Manageable)
	w.arrive(other, node.InspectWait)
}

// TestBMCOfAnEarlierInspectionFindsNoNode gives the BMC address of a machine that
// is inspected by its ports to another one.
func TestBMCOfAnEarlierInspectionFindsNoNode(t *testing.T) {
	w := newWorld(t)
	m := unknown(1)
	m.bmc = "192.0.2.50"
	n := w.agentNode(nil)
	w.addPort(n, m.macs[0])
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	otherMachine := unknown(2)
	otherMachine.bmc = m.bmc
	_, err := send(t, w.Conductor, otherMachine)
	wantIs(t, err, node.ErrNotFound)
	if nodes := w.all(); len(nodes) != 1 || nodes[0].ProvisionState != node.InspectWait {
		t.Errorf("%d nodes, the first in %q; want the one that goes on waiting", len(nodes), nodes[0].ProvisionState)
	}
}

func TestInspectionRestartsTheMachine(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(nil)
	w.send(n, "inspect")
	if got := w.arrive(n, node.InspectWait); got.PowerState != node.PowerOn {
		t.Errorf("power is %q, want on", got.PowerState)
	}
}

func TestRamdiskThatTheEngineCannotStartNeedsLeave(t *testing.T) {
	foreign := func(n *node.Node) { n.Interfaces[node.BootInterface] = "ipxe" }
	w := newWorld(t)
	n := w.agentNode(nil, foreign)
	text := errorAs[*node.ValidationError](t, w.try(n, "inspect")).Reason
	for _, part := range []string{n.UUID, `"ipxe"`, "inspector.require_managed_boot", "docs/inspection.md"} {
		if !strings.Contains(text, part) {
			t.Errorf("refused with %q, want %s in it", text, part)
		}
	}
	if got := w.stored(n.UUID); got.ProvisionState != node.Manageable {
		t.Errorf("node is in %q", got.ProvisionState)
	}
	w = newWorld(t, func(c *Config) { c.Inspection.UnmanagedBoot = true })
	n = w.agentNode(nil, foreign)
	if err := w.SetBootDevice(t.Context(), n.UUID, node.BootDevice{Device: "disk"}); err != nil {
		t.Fatal(err)
	}
	w.send(n, "inspect")
	if got := w.arrive(n, node.InspectWait); got.PowerState != node.PowerOn {
		t.Errorf("power is %q, want on", got.PowerState)
	}
	if got, err := w.BootDevice(t.Context(), n.UUID); err != nil || got.Device != "pxe" || got.Persistent == nil || *got.Persistent {
		t.Errorf("boot device = %+v, %v; want the network, once", got, err)
	}
	if rows := w.remarks(n); len(rows) > 0 {
		t.Errorf("history = %q", rows)
	}
}

// TestInspectionFailsWhenTheNextEngineRefusesUnmanagedBoot accepts the verb on an engine that
// permits unmanaged boot and leaves the work to one that does not.
func TestInspectionFailsWhenTheNextEngineRefusesUnmanagedBoot(t *testing.T) {
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1", func(c *Config) { c.Inspection.UnmanagedBoot = true })
	n := w.agentNode(nil, func(n *node.Node) { n.Interfaces[node.BootInterface] = "ipxe" })
	w.send(n, "inspect")
	w.clock.Advance(time.Minute)
	w.Conductor = w.start("conductor-2")
	w.awaitWorkDone()
	if got := w.arrive(n, node.InspectFailed); !strings.Contains(got.LastError, "inspector.require_managed_boot") || got.PowerState != node.PowerOff {
		t.Errorf("last_error %q, power %q", got.LastError, got.PowerState)
	}
}

func TestMachineWithoutPowerControlIsStartedByAPerson(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Inspection.UnmanagedBoot = true })
	n := w.create("manual-management")
	m := unknown(1)
	w.addPort(n, m.macs[0])
	if err := w.Heartbeat(t.Context(), n.UUID, beat(w.token(m))); err != nil {
		t.Fatal(err)
	}
	w.send(n, "manage")
	w.arrive(n, node.Manageable)
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	if rows := w.remarks(n); len(rows) != 1 || !strings.Contains(rows[0], "boot it into the ramdisk by hand") {
		t.Errorf("history = %q, want what a person has to do", rows)
	}
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" {
		t.Errorf("last_error = %q", got.LastError)
	}
}

func TestMachineIsRebootedThatMustNotBeSwitchedOff(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(map[string]any{"fake_power_delay": 60}, func(n *node.Node) { n.DisablePowerOff = true })
	w.send(n, "inspect")
	w.eventually("the reboot to take its time", func() bool { return w.delayed() == 1 })
	w.pass(time.Minute)
	if got := w.arrive(n, node.InspectWait); got.PowerState != node.PowerOn {
		t.Errorf("power is %q, want on", got.PowerState)
	}
}

// TestInspectedMachineIsSwitchedOff looks at the power when inspection has ended.
func TestInspectedMachineIsSwitchedOff(t *testing.T) {
	succeed, fail := func(*machine) {}, func(m *machine) { m.arch = "" }
	for name, tc := range map[string]struct {
		config func(*Config)
		change func(*node.Node)
		spoil  func(*machine)
		info   map[string]any
		late   bool
		want   node.PowerState
		state  node.State
	}{
		"done":        {spoil: succeed, want: node.PowerOff, state: node.Manageable},
		"hook failed": {spoil: fail, want: node.PowerOff, state: node.InspectFailed},
		"timed out":   {late: true, want: node.PowerOff, state: node.InspectFailed},
		"option off":  {config: func(c *Config) { c.Inspection.KeepPowerOn = true }, spoil: succeed, want: node.PowerOn, state: node.Manageable},
		"option off, late": {
			config: func(c *Config) { c.Inspection.KeepPowerOn = true }, late: true, want: node.PowerOn, state: node.InspectFailed,
		},
		"fast-track":       {config: func(c *Config) { c.FastTrack = true }, spoil: succeed, want: node.PowerOn, state: node.Manageable},
		"fast-track, node": {info: map[string]any{"fast_track": true}, spoil: succeed, want: node.PowerOn, state: node.Manageable},
		"must stay on":     {change: func(n *node.Node) { n.DisablePowerOff = true }, spoil: succeed, want: node.PowerOn, state: node.Manageable},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*Config)
			if tc.config != nil {
				changes = append(changes, tc.config)
			}
			w := newWorld(t, changes...)
			change := tc.change
			if change == nil {
				change = func(*node.Node) {}
			}
			n := w.agentNode(tc.info, change)
			m := unknown(1)
			w.addPort(n, m.macs[0])
			w.send(n, "inspect")
			w.arrive(n, node.InspectWait)
			if tc.late {
				w.pass(time.Hour)
			} else {
				tc.spoil(&m)
				if _, err := send(t, w.Conductor, m); err != nil {
					t.Fatal(err)
				}
			}
			w.awaitWorkDone()
			if got := w.arrive(n, tc.state); got.PowerState != tc.want {
				t.Errorf("power is %q, want %q", got.PowerState, tc.want)
			}
		})
	}
}

func TestInspectionSucceedsWhenTheMachineCannotBeSwitchedOff(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(nil)
	m := unknown(1)
	w.addPort(n, m.macs[0])
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	w.setInfo(n, map[string]any{"fake_power_error": "the relay is stuck"})
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	got := w.arrive(n, node.Manageable)
	if rows := strings.Join(w.history(n), "\n"); got.LastError != "" || got.InspectionFinishedAt.IsZero() || !strings.Contains(rows, "the relay is stuck") {
		t.Errorf("last_error %q, finished %v, history %q", got.LastError, got.InspectionFinishedAt, rows)
	}
}

// TestRamdiskOfAnInspectionGetsATokenInTheWorkThatFollows has cleaning begin before the
// agent of the earlier ramdisk counts as gone.
func TestRamdiskOfAnInspectionGetsATokenInTheWorkThatFollows(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(nil) // without a BMC: the start of inspection keeps the token
	m := unknown(1)
	w.addPort(n, m.macs[0])
	old := agent.WithToken(nil, "old", w.clock.Now())
	before := w.stored(n.UUID)
	after := *before
	after.DriverInternalInfo = old
	w.update(before, &after)
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	before = w.arrive(n, node.Manageable)
	after = *before
	after.ProvisionState = node.CleanWait
	w.update(before, &after)
	_, err := w.lookUp(m.macs...)
	wantAs[*node.LockedError](t, err)
	w.clock.Advance(heartbeatTimeout + time.Microsecond)
	w.token(m)
}

// TestInspectionGoesOnWhereverItsProcessDied stops the start of an inspection before
// each of its commits in turn.
func TestInspectionGoesOnWhereverItsProcessDied(t *testing.T) {
	commits := 0
	for done := false; !done; commits++ {
		w := emptyWorld(t)
		db := &crashing{Database: w.store}
		w.Conductor = w.idleOn(db, "conductor-1", withNames(t))
		n := w.agentNode(map[string]any{"redfish_address": "bmc1.example.com"})
		w.send(n, "inspect")
		if done = db.run(t, w.Conductor, commits); done != (w.stored(n.UUID).ProvisionState == node.InspectWait) {
			t.Fatalf("after %d commits: the node is in %q, done %v", commits, w.stored(n.UUID).ProvisionState, done)
		}
		w.clock.Advance(time.Minute)
		w.Conductor = w.start("conductor-2", withNames(t))
		got := w.arrive(n, node.InspectWait)
		if kept, indexed := w.keptAddresses(n); len(kept) != 2 || indexed != 2 || got.PowerState != node.PowerOn {
			t.Errorf("after %d commits: power %q, addresses %v, %d of them indexed", commits, got.PowerState, kept, indexed)
		}
		m := unknown(1)
		m.bmc = "2001:db8::17"
		if _, err := send(t, w.Conductor, m); err != nil {
			t.Fatalf("after %d commits: %v", commits, err)
		}
		w.awaitWorkDone()
		w.arrive(n, node.Manageable)
		if err := w.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if commits < 4 {
		t.Errorf("the work has %d commits: nothing was interrupted", commits)
	}
}

// TestMachineThatPostsBeforeItsStartIsStoredRetries posts while the engine still
// switches the machine on.
func TestMachineThatPostsBeforeItsStartIsStoredRetries(t *testing.T) {
	w := newWorld(t)
	n := w.agentNode(map[string]any{"fake_power_delay": 60, "ipmi_address": "192.0.2.17"})
	m := unknown(1)
	w.addPort(n, m.macs[0])
	byBMC := unknown(2)
	byBMC.bmc = "192.0.2.17"
	w.send(n, "inspect")
	w.eventually("the machine to start", func() bool { return w.delayed() == 1 })
	for _, quick := range []machine{m, byBMC} {
		_, err := send(t, w.Conductor, quick)
		wantAs[*node.LockedError](t, err)
	}
	w.pass(time.Minute)
	w.arrive(n, node.InspectWait)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.eventually("the machine to stop", func() bool { return w.delayed() == 1 })
	_, err := send(t, w.Conductor, m) // its answer was lost; the data is here
	wantIs(t, err, node.ErrNotFound)
	w.pass(time.Minute)
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
}

// TestEndOfInspectionGoesOnWhereverItsProcessDied stops the work that follows an
// accepted post before each of its commits in turn, with machines that are switched
// off at once and slowly.
func TestEndOfInspectionGoesOnWhereverItsProcessDied(t *testing.T) {
	for _, delay := range []int{0, 60} {
		commits := 0
		for done := false; !done; commits++ {
			w := emptyWorld(t)
			w.Conductor = w.start("conductor-0", withNames(t))
			n := w.agentNode(map[string]any{"redfish_address": "bmc1.example.com"})
			w.send(n, "inspect")
			w.arrive(n, node.InspectWait)
			w.setInfo(n, map[string]any{"redfish_address": "bmc1.example.com", "fake_power_delay": delay})
			if err := w.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			db := &crashing{Database: w.store}
			w.Conductor = w.idleOn(db, "conductor-1")
			m := unknown(1)
			m.bmc = "192.0.2.17"
			if _, err := send(t, w.Conductor, m); err != nil {
				t.Fatal(err)
			}
			done = db.run(t, w.Conductor, commits)
			w.clock.Advance(time.Minute)
			w.Conductor = w.start("conductor-2")
			if delay > 0 {
				w.eventually("the machine to be switched off", func() bool { return w.delayed() == 1 || w.works() == 0 })
				w.pass(time.Minute)
			}
			w.awaitWorkDone()
			got := w.arrive(n, node.Manageable)
			if kept, _ := w.keptAddresses(n); len(kept) > 0 || got.PowerState != node.PowerOff || got.InspectionFinishedAt.IsZero() || len(w.portsOf(got)) != 2 {
				t.Errorf("delay %d, after %d commits: power %q, addresses %v, %d ports", delay, commits, got.PowerState, kept, len(w.portsOf(got)))
			}
			if err := w.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if commits < 2 {
			t.Errorf("delay %d: the work has %d commits: nothing was interrupted", delay, commits)
		}
	}
}

// setInfo changes a node's driver_info.
func (w *world) setInfo(n *node.Node, info map[string]any) {
	w.t.Helper()
	if _, err := w.UpdateNode(w.t.Context(), n.UUID, func(n *node.Node) error {
		n.DriverInfo = node.ObjectOf(info)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestNodeWithoutInspectionRefusesToBeInspected(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil, func(n *node.Node) { n.Interfaces[node.InspectInterface] = "no-inspect" })
	if text := errorAs[*node.ValidationError](t, w.try(n, "inspect")).Reason; !strings.Contains(text, "no-inspect") {
		t.Errorf("refused with %q", text)
	}
}
