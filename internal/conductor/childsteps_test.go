package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// family creates a node in a state with children of fake hardware.
func (w *world) family(state node.State, children ...map[string]any) (parent *node.Node, all []*node.Node) {
	w.t.Helper()
	parent = w.fake(state, nil)
	for i, info := range children {
		all = append(all, w.fake(node.Enroll, info, func(n *node.Node) { n.ParentNode, n.Name = parent.UUID, "blade"+string(rune('1'+i)) }))
	}
	return parent, all
}

// onChildren is a step that these children run, or all when there are none.
func onChildren(name string, idents ...string) node.Step {
	s := step(name)
	s.ExecuteOnChildNodes, s.LimitChildNodeExecution = true, idents
	return s
}

func (w *world) powers(nodes ...*node.Node) string {
	w.t.Helper()
	var powers []string
	for _, n := range nodes {
		powers = append(powers, string(w.stored(n.UUID).PowerState))
	}
	return strings.Join(powers, ", ")
}

func TestStepsRunOnChildNodesInsteadOfTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		limit []string
		want  string // power of the node and its children
	}{
		"all":     {nil, "power off, power on, power on"},
		"limited": {[]string{"blade2"}, "power off, power off, power on"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			parent, children := w.family(node.Manageable, nil, nil)
			other := w.fake(node.Enroll, nil)
			w.send(parent, "clean", with(onChildren("power.power_on", tc.limit...), onChildren("bios.apply_configuration", tc.limit...)))
			w.awaitWorkDone()
			if got := w.arrive(parent, node.Manageable); got.LastError != "" {
				t.Fatalf("last_error = %q", got.LastError)
			}
			if got := w.powers(append([]*node.Node{parent}, children...)...); got != tc.want {
				t.Errorf("power of the node and its children: %s, want %s", got, tc.want)
			}
			if got := w.powers(other); got != "power off" {
				t.Errorf("power of a node that is no child: %s", got)
			}
			for _, child := range children {
				touched := len(tc.limit) == 0 || child.Name == tc.limit[0]
				got := w.stored(child.UUID)
				if strings.Contains(got.DriverInternalInfo.String(), "bios") != touched || got.Lease != (node.Lease{}) || got.ProvisionState != node.Enroll {
					t.Errorf("%s: %q with %s, lease %v; want it changed %v", child.Name, got.ProvisionState, got.DriverInternalInfo, got.Lease, touched)
				}
			}
		})
	}
}

func TestServiceStepsRunOnChildNodesToo(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Active, nil)
	w.send(parent, "service", with(onChildren("power.power_on")))
	w.awaitWorkDone()
	w.arrive(parent, node.Active)
	if got := w.powers(children...); got != "power on" {
		t.Errorf("power of the child: %s", got)
	}
}

func TestStepThatFailsOnAChildFailsTheNodeAndSaysWhere(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []node.Step
		info  map[string]any
		want  string
	}{
		"failure":      {[]node.Step{onChildren("bios.factory_reset")}, map[string]any{"fake_clean_error": "no battery"}, "no battery"},
		"unknown step": {[]node.Step{onChildren("bios.paint")}, nil, "There is no step bios.paint"},
		"other node":   {[]node.Step{onChildren("bios.factory_reset", "blade9")}, nil, "names node blade9 as a child"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			parent, children := w.family(node.Manageable, tc.info)
			w.send(parent, "clean", with(tc.steps...))
			w.awaitWorkDone()
			got := w.arrive(parent, node.CleanFailed)
			if !strings.Contains(got.LastError, tc.want) || name != "other node" && !strings.Contains(got.LastError, children[0].UUID) {
				t.Errorf("last_error %q, want %q and the child in it", got.LastError, tc.want)
			}
			if child := w.stored(children[0].UUID); child.Lease != (node.Lease{}) || child.LastError != "" {
				t.Errorf("child is under lease %v, last_error %q", child.Lease, child.LastError)
			}
		})
	}
}

// TestChildIsUnderWorkFromTheFirstTurnToTheLast has a step take time.
func TestChildIsUnderWorkFromTheFirstTurnToTheLast(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Manageable, map[string]any{"fake_clean_delay": 10, "fake_clean_wait": 5})
	w.send(parent, "clean", with(onChildren("bios.factory_reset")))
	w.eventually("the step to wait", func() bool { return w.delayed() == 1 })
	lease := w.stored(children[0].UUID).Lease
	if !lease.InForce(w.clock.Now()) || !slices.Contains(w.runner.Load().Leases, lease.Epoch) {
		t.Fatalf("lease of the child %v, renewed are %v", lease, w.runner.Load().Leases)
	}
	wantAs[*node.LockedError](t, w.try(children[0], "manage"))
	w.pass(10 * time.Second)
	w.eventually("the step to wait again", func() bool { return w.delayed() == 1 && w.workOf(parent).NotBefore.After(w.clock.Now()) })
	w.pass(5 * time.Second)
	w.awaitWorkDone()
	if got := w.arrive(parent, node.Manageable); got.LastError != "" {
		t.Errorf("last_error = %q", got.LastError)
	}
	if got := w.stored(children[0].UUID).Lease; got != (node.Lease{}) {
		t.Errorf("lease of the child %v, want none", got)
	}
	w.eventually("no lease to be renewed", func() bool { return len(w.runner.Load().Leases) == 0 })
}

func TestStepOnAChildGoesOnInAnotherProcess(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Manageable, map[string]any{"fake_clean_delay": 60}, nil)
	w.send(parent, "clean", with(onChildren("bios.apply_configuration")))
	w.eventually("the step to wait", func() bool { return w.delayed() == 1 })
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Conductor = w.start("conductor-2")
	w.pass(time.Minute)
	w.awaitWorkDone()
	w.arrive(parent, node.Manageable)
	for _, child := range children {
		if got := w.stored(child.UUID); got.Lease != (node.Lease{}) || !strings.Contains(got.DriverInternalInfo.String(), "bios") {
			t.Errorf("%s: lease %v, %s", child.Name, got.Lease, got.DriverInternalInfo)
		}
	}
}

// notingStepper is an interface that notes the step that it is to run.
type notingStepper struct {
	driver.Implementation
	ran *node.Step
}

func (s notingStepper) Steps(*node.Node, driver.StepKind) []node.Step { return nil }

func (s notingStepper) RunStep(_ context.Context, _ *node.Node, _ driver.StepKind, step node.Step, _ driver.Turn) (driver.Outcome, error) {
	*s.ran = step
	return driver.Outcome{}, nil
}

func TestAbortIsThatOfTheNodeThatShowsTheStep(t *testing.T) {
	c := emptyWorld(t).idle("conductor-1")
	var ran node.Step
	var err error
	c.drivers, err = driver.New(driver.Config{EnabledHardwareTypes: []string{"redfish"}}, driver.Implementations{
		node.FirmwareInterface: {"redfish": notingStepper{fake.New(nil), &ran}},
	})
	if err != nil {
		t.Fatal(err)
	}
	own, listed := step("firmware.update"), step("firmware.update")
	own.AbortAfter = true
	for name, tc := range map[string]struct {
		step node.Step
		want bool
	}{
		"its own step": {listed, true},
		"a step of its parent, after a step of its own": {onChildren("firmware.update", "blade1"), false},
	} {
		n := &node.Node{UUID: "blade1", Driver: "redfish", CleanStep: own.Object()}
		n.Interfaces[node.FirmwareInterface] = "redfish"
		operations := c.stepOperation(runner.Task{Node: n}, cleanFlow, 0, tc.step)
		if _, err := operations[0].Change(t.Context(), n, driver.Turn{Attempt: driver.Continued}); err != nil {
			t.Fatal(err)
		}
		if ran.AbortAfter != tc.want {
			t.Errorf("%s is aborted: %t, want %t", name, ran.AbortAfter, tc.want)
		}
	}
}

func TestStepWaitsForAChildThatIsUnderOtherWork(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Manageable, nil)
	lease := w.lease(children[0], "somebody")
	w.send(parent, "clean", with(onChildren("power.power_on")))
	w.eventually("the work to be put off", func() bool { return w.nextDue() > 0 && w.stored(parent.UUID).Lease == (node.Lease{}) })
	w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	w.pass(time.Minute)
	w.awaitWorkDone()
	w.arrive(parent, node.Manageable)
	if got := w.powers(children...); got != "power on" {
		t.Errorf("power of the child: %s", got)
	}
}

func TestStepWaitsForAChildWhoseOwnWorkWaitsWithoutALease(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Manageable, map[string]any{"fake_clean_wait": 20})
	before := w.stored(children[0].UUID)
	child := *before
	child.ProvisionState = node.Manageable
	w.update(before, &child)
	w.send(&child, "clean", with(step("deploy.erase_devices")))
	w.arrive(&child, node.CleanWait)
	w.send(parent, "clean", with(onChildren("power.power_on")))
	w.eventually("the work to be put off", func() bool { return w.workOf(parent).Attempts == 1 })
	if got := w.stored(child.UUID); got.ProvisionState != node.CleanWait || got.PowerState != node.PowerOff {
		t.Errorf("child is in %q and in %q; want its cleaning left alone", got.ProvisionState, got.PowerState)
	}
	w.pass(20 * time.Second)
	w.arrive(&child, node.Manageable)
	w.passUntilDone()
	if got := w.arrive(parent, node.Manageable); got.LastError != "" || w.powers(children...) != "power on" {
		t.Errorf("last_error %q, power of the child: %s", got.LastError, w.powers(children...))
	}
}

func TestStepWaitsForAChildWhoseOwnWorkIsToBeTriedAgain(t *testing.T) {
	w := newWorld(t)
	parent, children := w.family(node.Manageable, nil)
	w.write(func(tx *store.Tx) error {
		return tx.AddWork(&store.Work{
			NodeID: children[0].ID, Kind: workPower, NotBefore: tx.Now().Add(5 * time.Second),
			Intent: node.ObjectOf(map[string]any{powerTargetIntent: node.PowerOff}),
		})
	})
	w.send(parent, "clean", with(onChildren("power.power_on")))
	w.eventually("the work to be put off", func() bool { return w.workOf(parent).Attempts == 1 })
	if got := w.powers(children...); got != "power off" {
		t.Errorf("power of the child: %s; want it left alone", got)
	}
	w.passUntilDone()
	if got := w.arrive(parent, node.Manageable); got.LastError != "" || w.powers(children...) != "power on" {
		t.Errorf("last_error %q, power of the child: %s", got.LastError, w.powers(children...))
	}
}

func TestChildOfAnotherConductorGroupIsRefused(t *testing.T) {
	w := newWorld(t)
	w.start("conductor-2", func(c *Config) { c.Group = "row2" })
	parent := w.fake(node.Manageable, nil)
	child := w.fake(node.Enroll, nil, func(n *node.Node) { n.ParentNode, n.ConductorGroup = parent.UUID, "row2" })
	w.send(parent, "clean", with(onChildren("power.power_on")))
	w.awaitWorkDone()
	if got := w.arrive(parent, node.CleanFailed); !strings.Contains(got.LastError, child.UUID) || !strings.Contains(got.LastError, `"row2"`) {
		t.Errorf("last_error = %q", got.LastError)
	}
	if got := w.powers(child); got != "power off" {
		t.Errorf("power of the child: %s", got)
	}
}

func TestRamdiskIsAskedForByStepsThatRunInIt(t *testing.T) {
	without := func(r *node.VerbRequest) { r.DisableRamdisk = true }
	unbuilt := func(n *node.Node) { n.Interfaces[node.DeployInterface] = "direct" }
	untouched := func(*node.Node) {}
	for name, tc := range map[string]struct {
		change  func(*node.Node)
		steps   []node.Step
		request func(*node.VerbRequest)
		refused string
	}{
		"a step in the ramdisk":                   {untouched, []node.Step{step("deploy.erase_devices")}, nil, ""},
		"the same without ramdisk":                {untouched, []node.Step{step("bios.factory_reset"), step("deploy.erase_devices")}, without, "deploy.erase_devices runs in the ramdisk"},
		"a heartbeat without ramdisk":             {untouched, []node.Step{step("deploy.wait")}, without, "deploy.wait"},
		"steps outside of it":                     {untouched, []node.Step{step("bios.factory_reset"), step("power.reboot")}, without, ""},
		"steps outside of it, which could not be": {unbuilt, []node.Step{step("bios.factory_reset"), step("power.reboot")}, nil, ""},
		"a step in it, which could not be":        {unbuilt, []node.Step{step("deploy.erase_devices")}, nil, "This engine does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for verb, state := range map[string]node.State{"clean": node.Manageable, "service": node.Active} {
				n := w.fake(state, nil, tc.change)
				steps := slices.Clone(tc.steps)
				for i := range steps {
					if verb == "service" && steps[i].Step == "erase_devices" {
						steps[i].Step = "burnin_cpu"
					}
				}
				request := with(steps...)
				err := w.try(n, verb, func(r *node.VerbRequest) {
					request(r)
					if tc.request != nil {
						tc.request(r)
					}
				})
				if tc.refused != "" {
					text := strings.ReplaceAll(tc.refused, "erase_devices", steps[len(steps)-1].Step)
					if got := errorAs[*node.ValidationError](t, err); !strings.Contains(got.Reason, text) {
						t.Errorf("%s: refused with %q, want %q", verb, got.Reason, text)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", verb, err)
				}
				w.awaitWorkDone()
				if got := w.arrive(n, state); got.LastError != "" {
					t.Errorf("%s: last_error = %q", verb, got.LastError)
				}
			}
		})
	}
}

func TestCleanStepsThatTheConfigurationRefusesAreNotTaken(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.RefusedCleanSteps, c.AutomatedClean = []string{"deploy.erase_devices"}, true })
	n := w.fake(node.Manageable, nil)
	if got := errorAs[*node.ValidationError](t, w.try(n, "clean", with(step("deploy.erase_devices")))); !strings.Contains(got.Reason, "deploy.erase_devices is refused") {
		t.Errorf("reason %q", got.Reason)
	}
	w.send(n, "clean", with(step("deploy.erase_devices_metadata")))
	w.awaitWorkDone()
	w.arrive(n, node.Manageable)
	w.send(n, "provide") // runs it by itself
	w.awaitWorkDone()
	w.arrive(n, node.Available)
}

func TestNodesDecideAboutAutomatedCleaning(t *testing.T) {
	yes, no := true, false
	for name, tc := range map[string]struct {
		engine  bool
		node    *bool
		cleaned bool
	}{
		"engine on":                 {true, nil, true},
		"engine off":                {false, nil, false},
		"engine on, node off":       {true, &no, false},
		"engine off, node on":       {false, &yes, true},
		"engine on, node on":        {true, &yes, true},
		"engine off, node off, too": {false, &no, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.AutomatedClean = tc.engine })
			n := w.fake(node.Manageable, map[string]any{"fake_clean_error": "it cleans"}, func(n *node.Node) { n.AutomatedClean = tc.node })
			want := map[bool]node.State{true: node.CleanFailed, false: node.Available}[tc.cleaned]
			w.send(n, "provide")
			w.awaitWorkDone()
			w.arrive(n, want)
		})
	}
	if steps := newWorld(t).drivers.Steps(&node.Node{Interfaces: node.Interfaces{node.DeployInterface: "fake"}}, driver.CleanSteps); len(steps) == 0 {
		t.Error("there is nothing to clean with, so that this test says nothing")
	}
}
