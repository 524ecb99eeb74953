package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// send asks for a verb with what goes along, and fails the test when it is refused.
func (w *world) send(n *node.Node, name string, changes ...func(*node.VerbRequest)) {
	w.t.Helper()
	if err := w.try(n, name, changes...); err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
}

func (w *world) try(n *node.Node, name string, changes ...func(*node.VerbRequest)) error {
	w.t.Helper()
	verb, ok := node.VerbNamed(name)
	if !ok {
		w.t.Fatalf("no verb %q", name)
	}
	request := node.VerbRequest{Verb: verb}
	for _, change := range changes {
		change(&request)
	}
	return w.Provision(w.t.Context(), n.UUID, request)
}

// with gives a request these steps.
func with(steps ...node.Step) func(*node.VerbRequest) {
	return func(r *node.VerbRequest) { r.Steps = steps }
}

func step(name string) node.Step {
	kind, name, _ := strings.Cut(name, ".")
	return node.Step{Interface: kind, Step: name}
}

// arrive waits until the node is in a state and nobody works on it.
func (w *world) arrive(n *node.Node, want node.State) *node.Node {
	w.t.Helper()
	got := w.stored(n.UUID)
	w.eventually("node to reach "+string(want), func() bool {
		got = w.stored(n.UUID)
		return got.ProvisionState == want && !got.Lease.InForce(w.clock.Now())
	})
	return got
}

// fake creates a node of fake hardware with keys of driver_info, in a state.
func (w *world) fake(state node.State, info map[string]any, changes ...func(*node.Node)) *node.Node {
	w.t.Helper()
	n := w.create("fake-hardware", append(changes, func(n *node.Node) {
		n.DriverInfo = node.ObjectOf(info)
	})...)
	before := w.stored(n.UUID)
	after := *before
	after.ProvisionState, after.PowerState = state, node.PowerOff
	w.update(before, &after)
	return w.stored(n.UUID)
}

func rescuePassword(r *node.VerbRequest) { r.RescuePassword = "hush" }

// TestEveryVerbRunsToItsEnd walks the whole graph that fake hardware can reach.
func TestEveryVerbRunsToItsEnd(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware")
	for _, move := range []struct {
		verb string
		with func(*node.VerbRequest)
		want node.State
	}{
		{verb: "manage", want: node.Manageable},
		{verb: "inspect", want: node.Manageable},
		{verb: "clean", with: with(step("deploy.erase_devices"), step("power.reboot")), want: node.Manageable},
		{verb: "adopt", want: node.Active},
		{verb: "service", with: with(step("bios.factory_reset"), step("deploy.reboot")), want: node.Active},
		{verb: "rescue", with: rescuePassword, want: node.Rescue},
		{verb: "rescue", with: rescuePassword, want: node.Rescue},
		{verb: "unrescue", want: node.Active},
		{verb: "rebuild", want: node.Active},
		{verb: "deleted", want: node.Available},
		{verb: "active", want: node.Active},
		{verb: "undeploy", want: node.Available},
		{verb: "deploy", want: node.Active},
		{verb: "rescue", with: rescuePassword, want: node.Rescue},
		{verb: "deleted", want: node.Available},
		{verb: "manage", want: node.Manageable},
		{verb: "provide", want: node.Available},
	} {
		w.clock.Advance(time.Second)
		if move.with == nil {
			move.with = func(*node.VerbRequest) {}
		}
		w.send(n, move.verb, move.with)
		w.awaitWorkDone()
		got := w.arrive(n, move.want)
		if got.TargetProvisionState != "" || got.LastError != "" || got.Maintenance || !got.CleanStep.IsEmpty() || !got.DeployStep.IsEmpty() || !got.ServiceStep.IsEmpty() {
			t.Errorf("after %s: target %q, last_error %q, maintenance %v, steps %s %s %s", move.verb,
				got.TargetProvisionState, got.LastError, got.Maintenance, got.CleanStep, got.DeployStep, got.ServiceStep)
		}
		if info := got.DriverInternalInfo.Values(); slices.ContainsFunc(flows, func(f flow) bool { return info[f.listKey()] != nil || info[f.indexKey()] != nil }) {
			t.Errorf("after %s: driver_internal_info keeps %v", move.verb, info)
		}
	}
}

func TestEndOfAnInstanceRemovesItsData(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Available, nil, func(n *node.Node) {
		n.InstanceUUID, n.InstanceName = "0b0a7c1e-0000-4000-8000-000000000001", "web"
		n.InstanceInfo = node.ObjectOf(map[string]any{"image_source": "http://images/a.raw"})
	})
	w.send(n, "active", func(r *node.VerbRequest) { r.ConfigDrive = []byte(`{"meta_data":{"a":"b"}}`) })
	w.awaitWorkDone()
	got := w.arrive(n, node.Active)
	if got.PowerState != node.PowerOn || !strings.Contains(got.InstanceInfo.String(), `"configdrive":{"meta_data"`) {
		t.Errorf("power %q, instance_info %s; want the instance to run with its config drive", got.PowerState, got.InstanceInfo)
	}
	w.send(n, "deleted")
	w.awaitWorkDone()
	got = w.arrive(n, node.Available)
	if got.PowerState != node.PowerOff || got.InstanceUUID != "" || got.InstanceName != "" || !got.InstanceInfo.IsEmpty() {
		t.Errorf("power %q, instance %q %q %s; want nothing left", got.PowerState, got.InstanceUUID, got.InstanceName, got.InstanceInfo)
	}
}

func TestAutomatedCleaningRunsTheStepsOfTheDriversInOrder(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AutomatedClean = true })
	n := w.fake(node.Manageable, map[string]any{"fake_clean_delay": 10})
	w.send(n, "provide")
	for i, want := range []string{"deploy.erase_devices_metadata", "deploy.erase_devices"} {
		var got node.Step
		w.eventually("step "+want, func() bool {
			stored := w.stored(n.UUID)
			got, _ = node.StepOf(stored.CleanStep)
			return got.Name() == want
		})
		stored := w.stored(n.UUID)
		var index int
		if stored.DriverInternalInfo.Get("clean_step_index", &index); index != i || stored.ProvisionState != node.Cleaning || stored.TargetProvisionState != node.Available {
			t.Errorf("step %d: index %d in %q to %q", i, index, stored.ProvisionState, stored.TargetProvisionState)
		}
		w.eventually("the step to wait", func() bool { return w.delayed() == 1 })
		w.pass(10 * time.Second)
	}
	w.arrive(n, node.Available)
}

// delayed returns how many pieces of work wait for time to pass: in memory, or
// without a lease.
func (w *world) delayed() int {
	w.t.Helper()
	count := w.runner.Load().Delayed
	w.read(func(tx *store.Tx) error {
		nodes, err := tx.Nodes(node.Query{})
		for _, n := range nodes {
			works, err := tx.WorkOf(n.ID)
			if err != nil {
				return err
			}
			if len(works) > 0 && works[0].NotBefore.After(tx.Now()) && !n.Lease.InForce(tx.Now()) {
				count++
			}
		}
		return err
	})
	return count
}

// workOf returns the only work of a node, with the lease that the node is under.
func (w *world) workOf(n *node.Node) *store.Work {
	w.t.Helper()
	var work *store.Work
	w.read(func(tx *store.Tx) error {
		stored, err := tx.NodeByID(n.ID)
		if err != nil {
			return err
		}
		works, err := tx.WorkOf(n.ID)
		if err == nil && len(works) != 1 {
			return fmt.Errorf("%d pieces of work", len(works))
		}
		if err == nil {
			work = works[0]
			work.Lease = stored.Lease
		}
		return err
	})
	return work
}

func TestFailedStepTellsWhichOneAndWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		state, want node.State
		verb        string
		with        func(*node.VerbRequest)
		info        string
		fault       string
		power       node.PowerState
		text        []string
	}{
		"clean": {
			state: node.Manageable, verb: "clean", with: with(step("deploy.erase_devices")), info: "clean", want: node.CleanFailed,
			fault: node.FaultCleanFailure, power: node.PowerOff, text: []string{"Failed to clean node", "step deploy.erase_devices", "the disk is on fire"},
		},
		"service": {
			state: node.Active, verb: "service", with: with(step("bios.factory_reset")), info: "service", want: node.ServiceFailed,
			fault: node.FaultServiceFailure, power: node.PowerOn, text: []string{"step bios.factory_reset", "the disk is on fire"},
		},
		"deploy":   {state: node.Available, verb: "active", info: "deploy", want: node.DeployFailed, power: node.PowerOff, text: []string{"step deploy.deploy"}},
		"undeploy": {state: node.Active, verb: "deleted", info: "undeploy", want: node.ErrorState, power: node.PowerOff},
		"adopt":    {state: node.Manageable, verb: "adopt", info: "adopt", want: node.AdoptFailed, power: node.PowerOff},
		"inspect":  {state: node.Manageable, verb: "inspect", info: "inspect", want: node.InspectFailed, power: node.PowerOff},
		"rescue":   {state: node.Active, verb: "rescue", with: rescuePassword, info: "rescue", want: node.RescueFailed, power: node.PowerOff},
		"unrescue": {state: node.Rescue, verb: "unrescue", info: "unrescue", want: node.UnrescueFailed, power: node.PowerOff},
		"manage":   {state: node.Enroll, verb: "manage", info: "verify", want: node.Enroll, power: node.PowerOff},
		"unknown step": {
			state: node.Manageable, verb: "clean", with: with(step("raid.paint")), want: node.CleanFailed, power: node.PowerOff,
			text: []string{"There is no step raid.paint", "create_configuration"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.fake(tc.state, map[string]any{"fake_" + tc.info + "_error": "the disk is on fire"})
			if tc.with == nil {
				tc.with = func(*node.VerbRequest) {}
			}
			w.send(n, tc.verb, tc.with)
			w.awaitWorkDone()
			got := w.arrive(n, tc.want)
			for _, part := range tc.text {
				if !strings.Contains(got.LastError, part) {
					t.Errorf("last_error %q lacks %q", got.LastError, part)
				}
			}
			if !strings.Contains(got.LastError, n.UUID) || got.Fault != tc.fault || got.Maintenance != (tc.fault != "") || got.PowerState != tc.power {
				t.Errorf("last_error %q, fault %q, maintenance %v, power %q", got.LastError, got.Fault, got.Maintenance, got.PowerState)
			}
			if !got.CleanStep.IsEmpty() || !got.ServiceStep.IsEmpty() || !got.DeployStep.IsEmpty() {
				t.Error("the failed step is still shown")
			}
			if rows := w.history(n); !slices.ContainsFunc(rows, func(row string) bool { return strings.HasSuffix(row, got.LastError) && strings.HasPrefix(row, "ERROR") }) {
				t.Errorf("history %q lacks the failure", rows)
			}
			if tc.want.Class() == node.Failed && got.TargetProvisionState == "" {
				t.Error("the target of the failed verb is gone")
			}
		})
	}
}

func TestWaitingStatesReleaseTheNodeAndGoOn(t *testing.T) {
	for name, tc := range map[string]struct {
		state, wait, want node.State
		verb              string
		with              func(*node.VerbRequest)
		info              string
	}{
		"clean":   {node.Manageable, node.CleanWait, node.Manageable, "clean", with(step("deploy.erase_devices")), "clean"},
		"deploy":  {node.Available, node.DeployWait, node.Active, "active", nil, "deploy"},
		"service": {node.Active, node.ServiceWait, node.Active, "service", with(step("bios.factory_reset")), "service"},
		"rescue":  {node.Active, node.RescueWait, node.Rescue, "rescue", rescuePassword, "rescue"},
		"inspect": {node.Manageable, node.InspectWait, node.Manageable, "inspect", nil, "inspect"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.fake(tc.state, map[string]any{"fake_" + tc.info + "_wait": 60})
			if tc.with == nil {
				tc.with = func(*node.VerbRequest) {}
			}
			w.send(n, tc.verb, tc.with)
			w.arrive(n, tc.wait)
			w.pass(59 * time.Second)
			if got := w.stored(n.UUID); got.ProvisionState != tc.wait {
				t.Fatalf("node is in %q after 59 of 60 seconds", got.ProvisionState)
			}
			w.pass(time.Second)
			w.awaitWorkDone()
			if got := w.arrive(n, tc.want); got.LastError != "" {
				t.Errorf("last_error = %q", got.LastError)
			}
		})
	}
}

func TestHeldStepsGoOnAfterUnhold(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		state, held, want node.State
		verb              string
	}{
		{node.Manageable, node.CleanHold, node.Manageable, "clean"},
		{node.Active, node.ServiceHold, node.Active, "service"},
	} {
		n := w.fake(tc.state, nil)
		w.send(n, tc.verb, with(step("deploy.burnin_cpu"), step("deploy.hold"), step("power.power_on")))
		held := w.arrive(n, tc.held)
		if held.PowerState == node.PowerOn {
			t.Fatalf("%s: the step behind the hold has run", tc.verb)
		}
		w.pass(24 * time.Hour) // holds have no end of their own
		w.send(n, "unhold")
		w.awaitWorkDone()
		if got := w.arrive(n, tc.want); got.LastError != "" || got.PowerState != node.PowerOn {
			t.Errorf("%s: last_error %q, power %q", tc.verb, got.LastError, got.PowerState)
		}
	}
}

func TestHoldMayBeTheLastStep(t *testing.T) {
	w := newWorld(t)
	for verb, state := range map[string]node.State{"clean": node.Manageable, "service": node.Active} {
		n := w.fake(state, nil)
		w.send(n, verb, with(step("deploy.burnin_cpu"), step("deploy.hold")))
		w.arrive(n, map[string]node.State{"clean": node.CleanHold, "service": node.ServiceHold}[verb])
		w.send(n, "unhold")
		w.awaitWorkDone()
		if got := w.arrive(n, state); got.LastError != "" {
			t.Errorf("%s: last_error %q", verb, got.LastError)
		}
	}
}

func TestAbort(t *testing.T) {
	for name, tc := range map[string]struct {
		state, wait, want node.State
		verb              string
		with              func(*node.VerbRequest)
		info              string
		power             node.PowerState
	}{
		"clean wait":     {node.Manageable, node.CleanWait, node.CleanFailed, "clean", with(step("deploy.erase_devices")), "clean", node.PowerOff},
		"clean hold":     {node.Manageable, node.CleanHold, node.CleanFailed, "clean", with(step("deploy.hold")), "", node.PowerOff},
		"inspect wait":   {node.Manageable, node.InspectWait, node.InspectFailed, "inspect", nil, "inspect", node.PowerOff},
		"deployment":     {node.Available, node.DeployWait, node.DeployFailed, "active", nil, "deploy", node.PowerOff},
		"wait call-back": {node.Available, node.DeployWait, node.DeployFailed, "active", with(deployWait), "", node.PowerOff},
		"deploy hold":    {node.Available, node.DeployHold, node.DeployFailed, "active", with(deployHold), "", node.PowerOff},
		"rescue wait":    {node.Active, node.RescueWait, node.RescueFailed, "rescue", rescuePassword, "rescue", node.PowerOff},
		"service wait":   {node.Active, node.ServiceWait, node.Active, "service", with(step("deploy.burnin_cpu")), "service", node.PowerOn},
		"service hold":   {node.Active, node.ServiceHold, node.Active, "service", with(step("deploy.hold")), "", node.PowerOn},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.fake(tc.state, map[string]any{"fake_" + tc.info + "_wait": 60})
			if tc.with == nil {
				tc.with = func(*node.VerbRequest) {}
			}
			w.send(n, tc.verb, tc.with)
			w.arrive(n, tc.wait)
			w.send(n, "abort")
			w.awaitWorkDone()
			got := w.arrive(n, tc.want)
			if !strings.Contains(got.LastError, "aborted by request") || got.Maintenance || got.PowerState != tc.power || !got.CleanStep.IsEmpty() {
				t.Errorf("last_error %q, maintenance %v, power %q, step %s", got.LastError, got.Maintenance, got.PowerState, got.CleanStep)
			}
			w.pass(time.Hour)
			if got := w.stored(n.UUID); got.ProvisionState != tc.want {
				t.Errorf("node went on to %q", got.ProvisionState)
			}
		})
	}
}

var (
	deployHold = node.Step{Interface: "deploy", Step: "hold", Priority: 50}
	deployWait = node.Step{Interface: "deploy", Step: "wait", Priority: 50}
)

func TestStepThatCannotBeLeftHalfDoneEndsBeforeTheAbort(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_clean_wait": 60})
	w.send(n, "clean", with(step("bios.factory_reset"), step("power.power_on")))
	w.arrive(n, node.CleanWait)
	w.send(n, "abort")
	if got := w.stored(n.UUID); got.ProvisionState != node.CleanWait || !strings.Contains(got.CleanStep.String(), `"abort_after":true`) {
		t.Fatalf("node is in %q with step %s, want the step to go on", got.ProvisionState, got.CleanStep)
	}
	w.pass(time.Minute)
	w.awaitWorkDone()
	got := w.arrive(n, node.CleanFailed)
	if !strings.Contains(got.LastError, "aborted by request after the step bios.factory_reset") || got.PowerState == node.PowerOn {
		t.Errorf("last_error %q, power %q", got.LastError, got.PowerState)
	}
}

func TestStepThatCannotBeInterruptedIsNotSwitchedOff(t *testing.T) {
	for name, tc := range map[string]struct {
		state, wait, want node.State
		verb              string
		step              node.Step
		info              string
	}{
		"service": {node.Active, node.ServiceWait, node.Active, "service", step("firmware.update"), "service"},
		"deploy":  {node.Available, node.DeployWait, node.Active, "active", node.Step{Interface: "firmware", Step: "update", Priority: 150}, "deploy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.fake(tc.state, map[string]any{"fake_" + tc.info + "_wait": 60})
			w.send(n, tc.verb, with(tc.step))
			w.arrive(n, tc.wait)
			before := w.stored(n.UUID)
			refused := errorAs[*node.ConflictError](t, w.try(n, "deleted"))
			if !strings.Contains(refused.Reason, "firmware.update") {
				t.Errorf("error = %v, want the step", refused)
			}
			wantAs[*node.ConflictError](t, w.SetPower(t.Context(), n.UUID, node.PowerOff, 0))
			if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
				t.Errorf("node (-before +after):\n%s", diff)
			}
			w.passUntilDone()
			if got := w.arrive(n, tc.want); got.LastError != "" {
				t.Errorf("last_error %q", got.LastError)
			}
		})
	}
}

func TestHeartbeatEndsAWait(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.wait"), step("power.power_on")))
	w.arrive(n, node.CleanWait)
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Heartbeat(t.Context(), n.UUID, beat(answer.Token)); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.LastError != "" || got.PowerState != node.PowerOn {
		t.Errorf("last_error %q, power %q", got.LastError, got.PowerState)
	}
}

// TestInspectionEndsThatNobodyPosts has an agent that was there before send
// heartbeats: it will not post again.
func TestInspectionEndsThatNobodyPosts(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil, func(n *node.Node) { n.Interfaces[node.InspectInterface] = "agent" })
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	answer, err := w.Lookup(t.Context(), node.LookupRequest{NodeUUID: n.UUID, WantsToken: true})
	if err != nil {
		t.Fatal(err)
	}
	w.pass(20 * time.Minute)
	if err := w.Heartbeat(t.Context(), n.UUID, beat(answer.Token)); err != nil {
		t.Fatal(err)
	}
	if got := w.arrive(n, node.InspectWait); got.LastError != "" || agent.LastHeartbeat(got).IsZero() {
		t.Fatalf("last_error %q, last heartbeat %v", got.LastError, agent.LastHeartbeat(got))
	}
	w.pass(10 * time.Minute)
	w.awaitWorkDone()
	if got := w.arrive(n, node.InspectFailed); !strings.Contains(got.LastError, "has posted no inventory for") || !strings.Contains(got.LastError, "30m0s") || !strings.Contains(got.LastError, "why it refused a post") {
		t.Errorf("last_error = %q", got.LastError)
	}
}

func TestInspectionByTheRamdiskEndsTheWait(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil, func(n *node.Node) { n.Interfaces[node.InspectInterface] = "agent" })
	m := unknown(1)
	if _, err := w.CreatePort(t.Context(), &node.Port{NodeUUID: n.UUID, Address: m.macs[0]}); err != nil {
		t.Fatal(err)
	}
	w.send(n, "inspect")
	w.arrive(n, node.InspectWait)
	if _, err := send(t, w.Conductor, m); err != nil {
		t.Fatal(err)
	}
	w.awaitWorkDone()
	if got := w.arrive(n, node.Manageable); got.InspectionFinishedAt.IsZero() || got.LastError != "" {
		t.Errorf("finished at %v, last_error %q", got.InspectionFinishedAt, got.LastError)
	}
}

func TestProtectedNodesKeepTheirInstance(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Active, nil, func(n *node.Node) { n.Protected = true })
	for _, verb := range []string{"deleted", "rebuild"} {
		wantAs[*node.ForbiddenError](t, w.try(n, verb))
	}
}

func TestWorkAtOnceIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.MaxDeploying, c.Limits.MaxCleaning = 1, 1 })
	first := w.fake(node.Available, map[string]any{"fake_deploy_delay": 60})
	w.send(first, "active")
	busy := errorAs[*node.BusyError](t, w.try(w.fake(node.Available, nil), "active"))
	if !strings.Contains(busy.Reason, "conductor.max_deploying") {
		t.Errorf("reason %q, want it to name the limit", busy.Reason)
	}
	cleaned := w.fake(node.Manageable, map[string]any{"fake_clean_delay": 60})
	w.send(cleaned, "clean", with(step("deploy.erase_devices")))
	wantIs(t, w.try(w.fake(node.Manageable, nil), "clean", with(step("deploy.erase_devices"))), node.ErrBusy)
}

func TestOfEqualVerbsAtOnceOneIsAcceptedEvenWhereTheyLeadBack(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	verb, _ := node.VerbNamed("inspect")
	arrived := w.clock.Now()
	w.clock.Advance(time.Millisecond)
	w.send(n, "inspect")
	w.awaitWorkDone()
	again := func(arrived time.Time) (err error) {
		w.write(func(tx *store.Tx) error {
			_, _, err = w.provision(tx, n.UUID, node.VerbRequest{Verb: verb}, arrived)
			return nil
		})
		return err
	}
	wantAs[*node.LockedError](t, again(arrived))
	if err := again(w.clock.Now()); err != nil {
		t.Errorf("inspection asked for afterwards: %v", err)
	}
}

func TestVerbWhoseStateWasJustTakenIsAConflictAndNotAMistake(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Enroll, nil)
	verb, _ := node.VerbNamed("manage")
	arrived := w.clock.Now()
	w.clock.Advance(time.Millisecond)
	w.send(n, "manage")
	w.awaitWorkDone()
	w.write(func(tx *store.Tx) error {
		_, _, err := w.provision(tx, n.UUID, node.VerbRequest{Verb: verb}, arrived)
		wantAs[*node.LockedError](t, err)
		return nil
	})
	wantAs[*node.TransitionError](t, w.try(n, "adopt", func(r *node.VerbRequest) { r.Verb, _ = node.VerbNamed("provide"); r.Verb.On = node.OnService }))
}

func TestStepsOfDriversAreKnownForEveryKind(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	for _, kind := range []driver.StepKind{driver.CleanSteps, driver.DeploySteps, driver.ServiceSteps} {
		if steps := w.drivers.Steps(n, kind); len(steps) == 0 {
			t.Errorf("fake hardware has no %s steps", kind)
		}
	}
}

func TestInspectionVoidsTheTokenOnlyWhereARamdiskCanBeStartedAgain(t *testing.T) {
	drivers, err := builtin.New(driver.Config{EnabledHardwareTypes: []string{"redfish", "manual-management"}}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	c := emptyWorld(t).idle("conductor-1")
	c.drivers = drivers
	for name, void := range map[string]bool{"redfish": true, "manual-management": false} {
		n := &node.Node{Driver: name, DriverInternalInfo: node.ObjectOf(map[string]any{"agent_secret_token": "t", "kept": true})}
		c.voidToken(n)
		if got := n.DriverInternalInfo.Text("agent_secret_token") == ""; got != void || n.DriverInternalInfo.IsEmpty() {
			t.Errorf("%s: %s", name, n.DriverInternalInfo)
		}
	}
}
