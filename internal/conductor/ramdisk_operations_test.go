package conductor

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// busyAgents have begun every command that they are sent.
type busyAgents struct{}

func (busyAgents) Commands(context.Context, *node.Node) ([]agent.Command, error) {
	return []agent.Command{{ID: "c0"}}, nil
}

func (busyAgents) Execute(context.Context, *node.Node, string, map[string]any, bool) (agent.Command, error) {
	return agent.Command{ID: "c1", Status: agent.CommandRunning}, nil
}

// withRamdisk returns a conductor that was not started and whose nodes may use the ramdisk,
// the machine behind them, and such a node with a BMC.
func withRamdisk(t *testing.T, changes ...func(*node.Node)) (*Conductor, *standIn, *node.Node) {
	t.Helper()
	c, m := emptyWorld(t).idle("conductor-1"), &standIn{power: node.PowerOn}
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		FakeMachine: func(*node.Node) (fake.Machine, bool) { return m, true },
		Redfish:     redfish.New(redfish.Options{}),
		Ramdisk:     ramdisk.New(ramdisk.Options{Agents: busyAgents{}, Running: func(*node.Node) bool { return true }}),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
	n := &node.Node{
		UUID: "u", Driver: "fake-hardware", PowerState: node.PowerOn,
		DriverInfo: node.ObjectOf(map[string]any{"fake_bmc": "192.0.2.1"}),
	}
	n.Interfaces[node.DeployInterface], n.Interfaces[node.PowerInterface] = "direct", "fake"
	n.Interfaces[node.BootInterface], n.Interfaces[node.ManagementInterface] = "fake", "fake"
	for _, change := range changes {
		change(n)
	}
	return c, m, n
}

// unskipped lists the names of the operations that are not left out.
func unskipped(operations []runner.Operation) []string {
	var names []string
	for _, o := range operations {
		if !o.Skip {
			names = append(names, o.Name)
		}
	}
	return names
}

// startedBy says that the work with the ID 7 has started the ramdisk of a node.
func startedBy(n *node.Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{ramdiskStartedKey: "7"})
}

// TestOperationsOfADeploymentHaveNamesOfTheirOwn has steps that restart the machine before each
// core step: two operations of one name would be run in a circle.
func TestOperationsOfADeploymentHaveNamesOfTheirOwn(t *testing.T) {
	c, _, n := withRamdisk(t)
	var steps []node.Step
	for _, core := range c.drivers.Steps(n, driver.DeploySteps) {
		if core.Interface == node.DeployInterface.String() {
			steps = append(steps, node.Step{Interface: "bios", Step: "apply_configuration"}, core)
		}
	}
	n.DriverInternalInfo = node.ObjectOf(map[string]any{deployFlow.listKey(): steps})
	operations, err := c.deployOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workDeploy}, Node: n})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[runner.Ref]bool{}
	for _, o := range operations {
		if seen[o.Ref] {
			t.Errorf("there are two operations %+v", o.Ref)
		}
		seen[o.Ref] = true
	}
}

// TestStartOfTheRamdiskBetweenStepsCanBeAborted begins to restart the ramdisk after a step that
// could not be interrupted, and has ended.
func TestStartOfTheRamdiskBetweenStepsCanBeAborted(t *testing.T) {
	c, _, n := withRamdisk(t)
	for _, ended := range []node.Step{{Interface: "firmware", Step: "update"}, {Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true}} {
		n.CleanStep = ended.Object()
		operations := c.restartRamdisk(n, cleanFlow, "1 deploy.burnin_cpu")
		forget := operations[slices.IndexFunc(operations, func(o runner.Operation) bool { return o.Store != nil })]
		if err := forget.Store(nil, n); err != nil {
			t.Fatal(err)
		}
		shown, ok := node.StepOf(n.CleanStep)
		if !ok || !shown.Abortable || agent.CommandRuns(n) || writesFirmware(n) {
			t.Errorf("after %s the node shows %+v, want the start of the ramdisk, in which nothing runs", ended.Name(), shown)
		}
	}
}

// TestMachineWithoutABMCIsRestartedByItsAgent between steps and after its servicing: without
// that, the next heartbeat of the agent that runs would count as that of the next ramdisk.
func TestMachineWithoutABMCIsRestartedByItsAgent(t *testing.T) {
	c, _, n := withRamdisk(t, startedBy, func(n *node.Node) {
		n.Driver, n.DriverInfo, n.Interfaces[node.PowerInterface], n.Interfaces[node.ManagementInterface] = "manual-management", nil, "agent", "noop"
	})
	known := map[string]any{agent.TokenKey: "t", agent.URLKey: "https://192.0.2.7:9999"}
	unheard := n.DriverInternalInfo
	n.DriverInternalInfo = unheard.With(known)
	want := []string{"forget ramdisk", bootRamdiskName, restartByAgentName, awaitRamdiskName}
	if diff := cmp.Diff(want, unskipped(c.restartRamdisk(n, cleanFlow, "1 deploy.burnin_cpu"))); diff != "" {
		t.Errorf("between steps (-want +got):\n%s", diff)
	}
	n.DriverInternalInfo = unheard
	want = []string{"forget ramdisk", bootRamdiskName, awaitRamdiskName}
	if diff := cmp.Diff(want, unskipped(c.restartRamdisk(n, cleanFlow, "1 deploy.burnin_cpu"))); diff != "" {
		t.Errorf("after a step that has had it restarted (-want +got):\n%s", diff)
	}
	if early := unskipped(c.backToInstance(n, "7")); !slices.Equal(early, []string{bootInstanceName}) {
		t.Errorf("before anybody has started the ramdisk, an abort wants %v", early)
	}
	n.DriverInternalInfo = n.DriverInternalInfo.With(known)
	if diff := cmp.Diff([]string{bootInstanceName, restartByAgentName}, unskipped(c.backToInstance(n, "7"))); diff != "" {
		t.Errorf("aborted (-want +got):\n%s", diff)
	}
	restart, turn := c.restartByAgent(n), driver.Turn{}
	for range 2 { // it is about to be sent, then it is
		out, err := restart.Change(t.Context(), n, turn)
		if err != nil {
			t.Fatal(err)
		}
		if turn = (driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}); out.Done() {
			out.Apply(n)
		}
	}
	if e := agent.EndpointOf(n); e.URL != "" || n.DriverInternalInfo.Text(agent.TokenKey) != "" {
		t.Errorf("after the restart the agent is known still: %s", n.DriverInternalInfo)
	}
	operations, err := c.serviceOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workService}, Node: n})
	if err != nil || !slices.Contains(unskipped(operations), restartByAgentName) {
		t.Errorf("servicing: %v, %v, want a restart by the agent", unskipped(operations), err)
	}
}

// TestInstanceIsStartedAgainWhenServicingEndsEarly leaves machines whose servicing has failed,
// or was aborted, with and without their ramdisk.
func TestInstanceIsStartedAgainWhenServicingEndsEarly(t *testing.T) {
	updates := func(n *node.Node) { n.ServiceStep = node.Step{Interface: "firmware", Step: "update"}.Object() }
	back := []string{powerOffName, bootInstanceName, powerOnName}
	for name, tc := range map[string]struct {
		change func(*node.Node)
		want   []string
		failed []string // nil for want
	}{
		"in the ramdisk":          {change: startedBy, want: back},
		"through the BMC":         {change: func(*node.Node) {}, want: []string{powerOnName}},
		"firmware may be written": {change: func(n *node.Node) { startedBy(n); updates(n) }, want: back, failed: []string{powerOnName}},
	} {
		c, _, n := withRamdisk(t, tc.change)
		failed := unskipped(c.cleanUpServicing(runner.Task{Work: &store.Work{ID: 7, Kind: workService}, Node: n}))
		want := tc.failed
		if want == nil {
			want = tc.want
		}
		if diff := cmp.Diff(want, failed); diff != "" {
			t.Errorf("failed, %s (-want +got):\n%s", name, diff)
		}
		intent := node.ObjectOf(map[string]any{abortedIntent: workService, abortedMarkIntent: "7"})
		operations, err := c.cleanUpOperations(runner.Task{Work: &store.Work{ID: 8, Kind: workCleanUp, Intent: intent}, Node: n})
		if diff := cmp.Diff(tc.want, unskipped(operations)); err != nil || diff != "" {
			t.Errorf("aborted, %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestRamdiskThatWasStartedIsEnded has automated cleaning disabled while it runs.
func TestRamdiskThatWasStartedIsEnded(t *testing.T) {
	off := false
	c, _, n := withRamdisk(t, startedBy, func(n *node.Node) {
		n.AutomatedClean = &off
		node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
	})
	for id, want := range map[int64]bool{7: true, 8: false} {
		operations, err := c.cleanOperations(runner.Task{Work: &store.Work{ID: id, Kind: workClean}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		names := unskipped(operations)
		if got := slices.Contains(names, leaveRamdiskName) && slices.Contains(names, powerOffName); got != want {
			t.Errorf("work %d: %v, want it to end the ramdisk: %v", id, names, want)
		}
	}
}

// TestMachineThatMustNotBeSwitchedOffLeavesTheRamdisk ends a deployment on it: it is on already.
func TestMachineThatMustNotBeSwitchedOffLeavesTheRamdisk(t *testing.T) {
	for _, never := range []bool{true, false} {
		c, m, n := withRamdisk(t, func(n *node.Node) { n.DisablePowerOff = never })
		operations, err := c.deployOperations(runner.Task{Work: &store.Work{ID: 7, Kind: workDeploy}, Node: n})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(operations, func(o runner.Operation) bool { return o.Ref == runner.Ref{Name: powerOnName} })
		if _, err := operations[i].Change(context.Background(), n, driver.Turn{}); err != nil {
			t.Fatal(err)
		}
		if restarted := len(m.kinds()) > 0; restarted != never {
			t.Errorf("never off: %v; what was done: %v, want a restart only then", never, m.kinds())
		}
	}
}

// TestRamdiskOfAMachineThatIsOffIsNotKept has an agent whose last heartbeat is recent.
func TestRamdiskOfAMachineThatIsOffIsNotKept(t *testing.T) {
	for power, want := range map[node.PowerState]bool{node.PowerOn: true, node.PowerOff: false} {
		c, _, n := withRamdisk(t, func(n *node.Node) {
			n.PowerState, n.DriverInfo = power, n.DriverInfo.With(map[string]any{"fast_track": true})
		})
		if choose(t, c, n); kept(n) != want {
			t.Errorf("%s: kept %v, want %v", power, kept(n), want)
		}
	}
}

// choose decides whether the ramdisk of a node is kept.
func choose(t *testing.T, c *Conductor, n *node.Node) {
	t.Helper()
	write, err := c.chooseRamdisk("7")(t.Context(), n)
	if err == nil {
		err = write(nil, n)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRamdiskThatDiedSinceItsLastHeartbeatIsStartedAnew where the engine can do that: a machine
// without a BMC has to wait for its ramdisk.
func TestRamdiskThatDiedSinceItsLastHeartbeatIsStartedAnew(t *testing.T) {
	manual := func(n *node.Node) {
		n.Driver, n.DriverInfo, n.Interfaces[node.PowerInterface] = "manual-management", nil, "agent"
	}
	for name, tc := range map[string]struct {
		answers func(context.Context, agent.Endpoint) error
		change  func(*node.Node)
		want    bool
	}{
		"it answers":            {answers: lives, want: true},
		"nobody was asked":      {answers: func(context.Context, agent.Endpoint) error { return agent.ErrNotCalled }, want: true},
		"no answer":             {want: false},
		"no answer, no BMC":     {change: manual, want: true},
		"no heartbeat came yet": {change: func(n *node.Node) { n.DriverInternalInfo = n.DriverInternalInfo.Without(agent.URLKey) }, want: true},
	} {
		c, _, n := withRamdisk(t, func(n *node.Node) {
			n.DriverInfo = n.DriverInfo.With(map[string]any{"fast_track": true})
			n.DriverInternalInfo = node.ObjectOf(map[string]any{agent.TokenKey: "t", agent.URLKey: "https://192.0.2.7:9999"})
		})
		if tc.change != nil {
			tc.change(n)
		}
		c.cfg.Agents.(*ramdisks).do(tc.answers)
		choose(t, c, n)
		started := slices.Contains(unskipped(c.startRamdisk(runner.Task{Work: &store.Work{ID: 7}, Node: n}, cleanFlow, beforeSteps)), bootRamdiskName)
		if kept(n) != tc.want || started == tc.want || (agent.EndpointOf(n).URL == "") != (!tc.want || name == "no heartbeat came yet") {
			t.Errorf("%s: kept %v, started anew %v, agent at %q", name, kept(n), started, agent.EndpointOf(n).URL)
		}
	}
}

// TestKeptRamdiskWithoutAHeartbeatIsStartedAnewAfterAWhile has a ramdisk die after it has posted
// its inventory.
func TestKeptRamdiskWithoutAHeartbeatIsStartedAnewAfterAWhile(t *testing.T) {
	c, _, n := withRamdisk(t, func(n *node.Node) { n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskKeptKey: true}) })
	wait := c.awaitKeptRamdisk(n)
	if out, err := wait.Change(t.Context(), n, driver.Turn{Elapsed: time.Minute}); wait.Skip || err != nil || out.Park != heartbeatTimeout-time.Minute || !out.Callback {
		t.Fatalf("after a minute: skipped %v, %+v, %v, want it to wait on", wait.Skip, out, err)
	}
	out, err := wait.Change(t.Context(), n, driver.Turn{Elapsed: heartbeatTimeout})
	if err != nil || !out.Done() || out.Apply == nil {
		t.Fatalf("at the end: %+v, %v", out, err)
	}
	if out.Apply(n); kept(n) || c.bootRamdiskOperation(n).Skip {
		t.Error("the ramdisk is kept still")
	}
	n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskKeptKey: true, agent.URLKey: "https://192.0.2.7:9999"})
	if out, err := wait.Change(t.Context(), n, driver.Turn{Heard: true}); err != nil || !out.Done() || out.Apply != nil {
		t.Errorf("at its first heartbeat: %+v, %v", out, err)
	}
}

// TestMachineWhoseRamdiskIsNotHeardIsStartedAgainTwice walks through the operations that retry a
// boot with a ramdisk that sends nothing, and with what keeps them away.
func TestMachineWhoseRamdiskIsNotHeardIsStartedAgainTwice(t *testing.T) {
	const limit, wait = time.Minute, "wait before boot retry"
	token := node.ObjectOf(map[string]any{agent.TokenKey: "t"})
	again := []string{wait, offForRamdiskName, bootRamdiskName, powerOffName, powerOnName}
	twice := slices.Concat(again, again)
	for name, tc := range map[string]struct {
		change func(*Conductor, *node.Node)
		want   []string
	}{
		"never heard":                 {want: twice},
		"switched off by its setting": {change: func(c *Conductor, _ *node.Node) { c.cfg.Limits.BootRetry = 0 }},
		"it has looked itself up":     {change: func(_ *Conductor, n *node.Node) { n.DriverInternalInfo = token }},
		"its medium has a token": {want: twice, change: func(_ *Conductor, n *node.Node) {
			n.DriverInternalInfo = agent.WithPregenerated(node.Object{}, "t")
		}},
		"it has sent a heartbeat": {change: func(_ *Conductor, n *node.Node) {
			n.DriverInternalInfo = token.With(map[string]any{agent.URLKey: "https://192.0.2.7:9999"})
		}},
		"its heartbeat was refused": {change: func(_ *Conductor, n *node.Node) {
			n.DriverInternalInfo = agent.WithRefusal(agent.WithPregenerated(node.Object{}, "t"), node.RefusedPlainHTTP, "http://192.0.2.7:9999", time.Now())
		}},
		"it is kept": {change: func(_ *Conductor, n *node.Node) {
			n.DriverInternalInfo = node.ObjectOf(map[string]any{ramdiskKeptKey: true})
		}},
		"people start it": {change: func(_ *Conductor, n *node.Node) {
			n.Driver, n.DriverInfo, n.Interfaces[node.PowerInterface] = "manual-management", nil, "agent"
		}},
	} {
		c, _, n := withRamdisk(t)
		c.cfg.Limits.BootRetry = limit
		if tc.change != nil {
			tc.change(c, n)
		}
		var walked []string
		for i := range c.retryBoot(n, "") {
			operation := c.retryBoot(n, "")[i] // what it stores decides about those behind it
			if operation.Skip {
				continue
			}
			walked = append(walked, operation.Name)
			if operation.Name != wait {
				continue
			}
			if out, err := operation.Change(t.Context(), n, driver.Turn{Elapsed: time.Second}); err != nil || out.Park != limit-time.Second || !out.Callback {
				t.Errorf("%s: after a second: %+v, %v, want it to wait on", name, out, err)
			}
			out, err := operation.Change(t.Context(), n, driver.Turn{Elapsed: limit})
			if err != nil || !out.Done() || out.Note == "" {
				t.Fatalf("%s: after a minute: %+v, %v", name, out, err)
			}
			out.Apply(n)
			c.cfg.Limits.BootRetry = 0 // what has begun is ended, whatever the setting is then
			if retry := unskipped(c.retryBoot(n, "")); !slices.Equal(retry, again[1:]) {
				t.Errorf("%s: without the setting %q, want %q", name, retry, again[1:])
			}
			if out, err := operation.Change(t.Context(), n, driver.Turn{Elapsed: time.Second}); err != nil || !out.Done() || out.Note != "" {
				t.Errorf("%s: a wait without the setting: %+v, %v, want its end", name, out, err)
			}
			c.cfg.Limits.BootRetry = limit
			heard := *n
			heard.DriverInternalInfo = token
			if out, err := operation.Change(t.Context(), &heard, driver.Turn{Heard: true}); err != nil || !out.Done() || out.Note != "" {
				t.Errorf("%s: when it is heard: %+v, %v, want no retry", name, out, err)
			}
		}
		if !slices.Equal(walked, tc.want) {
			t.Errorf("%s: %q, want %q", name, walked, tc.want)
		}
	}
}

// TestRamdiskMayBeHeardForAWhileAfterTheEngineHasStarted has an engine come back when the time of
// a ramdisk is over that it could not hear.
func TestRamdiskMayBeHeardForAWhileAfterTheEngineHasStarted(t *testing.T) {
	const limit = 20 * time.Minute
	w := newWorld(t)
	wantLeft := func(elapsed, want time.Duration) {
		t.Helper()
		if got := w.leftToBeHeard(limit, elapsed); got != want {
			t.Errorf("after %s: %s are left, want %s", elapsed, got, want)
		}
	}
	wantLeft(limit, heartbeatTimeout)
	wantLeft(time.Minute, limit-time.Minute)
	wantLeft(limit+maxHearingTimes*heartbeatTimeout, -maxHearingTimes*heartbeatTimeout)
	w.clock.Advance(heartbeatTimeout)
	wantLeft(limit, 0)
}

// TestRamdiskIsStartedAgainWhereAStepHasEndedIt looks at all steps before one that runs in it.
func TestRamdiskIsStartedAgainWhereAStepHasEndedIt(t *testing.T) {
	own := func(name string) node.Step { return node.Step{Interface: "power", Step: name} }
	erase := node.Step{Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true}
	wait := node.Step{Interface: "deploy", Step: node.StepWait}
	pause := node.Step{Interface: "deploy", Step: node.StepWait, Args: map[string]any{"seconds": 1}}
	start := node.Step{Interface: "deploy", Step: node.StepStartRamdisk}
	children := own(node.StepReboot)
	children.ExecuteOnChildNodes = true
	bios := node.Step{Interface: "bios", Step: "apply_configuration"}
	raid := node.Step{Interface: "raid", Step: "create_configuration"}
	ofAgent := raid
	ofAgent.RequiresRamdisk = true
	write := node.Step{Interface: "deploy", Step: "write_image", RequiresRamdisk: true}
	again := erase
	again.RebootRequested = true
	for name, tc := range map[string]struct {
		steps []node.Step
		want  bool // before the last one
	}{
		"nothing before":                {[]node.Step{erase}, false},
		"a reboot":                      {[]node.Step{own(node.StepReboot), erase}, true},
		"a reboot and a pause":          {[]node.Step{own(node.StepReboot), pause, erase}, true},
		"off and on":                    {[]node.Step{own(node.StepPowerOff), own(node.StepPowerOn), erase}, true},
		"on, which it is":               {[]node.Step{own(node.StepPowerOn), erase}, false},
		"a reboot of its children":      {[]node.Step{children, erase}, false},
		"the BIOS and a pause":          {[]node.Step{bios, pause, erase}, true},
		"RAID through the BMC":          {[]node.Step{raid, erase}, true},
		"RAID twice":                    {[]node.Step{erase, raid, raid, erase}, true},
		"a step in it since the RAID":   {[]node.Step{raid, erase, erase}, false},
		"RAID of the agent":             {[]node.Step{ofAgent, erase}, false},
		"RAID of the agent, after BIOS": {[]node.Step{bios, ofAgent, erase}, false},
		"RAID needs none":               {[]node.Step{erase, raid}, false},
		"RAID in a deployment":          {[]node.Step{start, raid, write}, true},
		"RAID before its start":         {[]node.Step{raid, start, write}, false},
		"RAID of the agent, deploying":  {[]node.Step{start, ofAgent, write}, false},
		"a step that asks for it":       {[]node.Step{again, erase}, true},
		"a step in it since the reboot": {[]node.Step{own(node.StepReboot), erase, erase}, false},
		"its start since the reboot":    {[]node.Step{own(node.StepReboot), start, erase}, false},
		"a wait for its heartbeat":      {[]node.Step{own(node.StepReboot), wait}, true},
		"a pause needs none":            {[]node.Step{own(node.StepReboot), pause}, false},
		"and it was waited for since":   {[]node.Step{own(node.StepReboot), wait, erase}, false},
	} {
		c, _, n := withRamdisk(t)
		if got := c.restartsBefore(n, tc.steps, len(tc.steps)-1); got != tc.want {
			t.Errorf("%s: started again %v, want %v", name, got, tc.want)
		}
	}
}

// TestRAIDThroughTheBMCEndsTheRamdisk in manual cleaning and in a deployment, with the steps that the
// drivers offer.
func TestRAIDThroughTheBMCEndsTheRamdisk(t *testing.T) {
	raid := node.Step{Interface: "raid", Step: "create_configuration", Priority: 90}
	erase := node.Step{Interface: "deploy", Step: "erase_devices"}
	ofAgent := []node.Step{
		{Interface: "raid", Step: "create_configuration", RequiresRamdisk: true}, {Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true},
	}
	for by, want := range map[string]bool{"redfish": true, "agent": false} {
		c, _, n := withRamdisk(t, func(n *node.Node) {
			n.Interfaces[node.RAIDInterface] = by
			n.DriverInternalInfo = node.ObjectOf(map[string]any{"agent_cached_clean_steps": ofAgent, "agent_cached_deploy_steps": ofAgent[:1]})
		})
		steps, err := node.ListedSteps([]node.Step{raid, erase}, c.drivers.Steps(n, driver.CleanSteps))
		if err != nil || c.restartsBefore(n, steps, 1) != want {
			t.Errorf("%s, %v: %v, want it started again before the second step: %v", by, steps, err, want)
		}
		steps, err = node.DeploySteps(c.drivers.Steps(n, driver.DeploySteps), nil, []node.Step{raid})
		i := slices.IndexFunc(steps, func(s node.Step) bool { return s.Step == "write_image" })
		if err != nil || c.restartsBefore(n, steps, i) != want {
			t.Errorf("%s, %v: %v, want it started again before write_image: %v", by, steps, err, want)
		}
	}
}

// TestUndeployingWithdrawsTheRamdisk undeploys a node whose deployment waits, without cleaning.
func TestUndeployingWithdrawsTheRamdisk(t *testing.T) {
	w, off := newWorld(t), false
	n := w.register(inState(node.DeployWait), func(n *node.Node) {
		n.AutomatedClean, n.Interfaces[node.BootInterface], n.Interfaces[node.DeployInterface] = &off, "ipxe", "fake"
		node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n)
	})
	w.send(n, "deleted")
	w.awaitWorkDone()
	if _, serves := node.RamdiskBootOf(w.arrive(n, node.Available)); serves {
		t.Error("the boot is served still")
	}
}

// TestFailedDeploymentWithdrawsTheRamdiskOfAMachineThatStaysOn keeps it on to be examined.
func TestFailedDeploymentWithdrawsTheRamdiskOfAMachineThatStaysOn(t *testing.T) {
	c, _, n := withRamdisk(t, func(n *node.Node) { node.RamdiskBoot{Secret: node.NewBootSecret()}.StoreIn(n) })
	for keep, want := range map[bool][]string{true: {leaveRamdiskName}, false: {leaveRamdiskName, powerOffName}} {
		c.cfg.Limits.KeepPowerOn = keep
		if diff := cmp.Diff(want, unskipped(c.cleanUpDeployment(runner.Task{Work: &store.Work{ID: 7}, Node: n}))); diff != "" {
			t.Errorf("keep it on: %v (-want +got):\n%s", keep, diff)
		}
	}
}
