package ramdisk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// standIn is an agent that remembers its commands.
type standIn struct {
	commands []agent.Command
	sent     []map[string]any // the parameters of those that were executed
	result   string           // of the next command
	silent   error            // what every call fails with
	// lose has the next command be carried out without an answer.
	lose error
	// refuse has the next command not be carried out.
	refuse error
}

var _ Agents = (*standIn)(nil)

// Commands lists the commands so far.
func (s *standIn) Commands(context.Context, *node.Node) ([]agent.Command, error) {
	return slices.Clone(s.commands), s.silent
}

// Execute begins a command.
func (s *standIn) Execute(_ context.Context, _ *node.Node, name string, params map[string]any, wait bool) (agent.Command, error) {
	if err := errors.Join(s.silent, s.refuse); err != nil {
		s.refuse = nil
		return agent.Command{}, err
	}
	_, last, _ := strings.Cut(name, ".")
	c := agent.Command{ID: fmt.Sprint("c", len(s.commands)+1), Name: last, Status: agent.CommandRunning}
	if wait {
		c.Status, c.Result = agent.CommandSucceeded, json.RawMessage(s.result)
	}
	s.commands, s.sent = append(s.commands, c), append(s.sent, params)
	lost := s.lose
	s.lose = nil
	return c, lost
}

// end ends the last command.
func (s *standIn) end(status agent.CommandStatus, failure *agent.CommandError) {
	c := &s.commands[len(s.commands)-1]
	c.Status, c.Error = status, failure
}

var (
	errLost     = &node.DriverError{Op: "run", Retryable: true, Reason: "no answer"}
	errRefused  = &node.DriverError{Op: "run", Retryable: true, Refused: true, Reason: "busy"}
	errUnusable = &node.DriverError{Op: "list", Reason: "it is too large"}
	erase       = order{name: "clean.execute_clean_step"}
	asked       = agent.Command{ID: "c0", Name: "get_clean_steps", Status: agent.CommandSucceeded}
	machine     = &node.Node{UUID: "node-1"}
)

func driverOf(s *standIn, running bool) Driver {
	return New(Options{
		Agents: s, Running: func(*node.Node) bool { return running }, StepTimeout: time.Hour,
		Ports: func(context.Context, *node.Node) ([]*node.Port, error) { return nil, nil },
	})
}

// turns plays turns until the order is done, fails or waits for the agent. The first is
// given; the later ones follow in the process that made it.
func turns(t *testing.T, d Driver, o order, turn driver.Turn) (driver.Outcome, error) {
	t.Helper()
	for range 5 {
		out, err := d.run(t.Context(), machine, o, turn)
		if err != nil || out.Done() || out.Callback {
			return out, err
		}
		turn = driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}
	}
	t.Fatal("it neither ends nor waits")
	return driver.Outcome{}, nil
}

func TestCommandIsSentOnceAndFollowedToItsEnd(t *testing.T) {
	s := &standIn{commands: []agent.Command{{ID: "c0", Name: "execute_clean_step", Status: agent.CommandSucceeded}}}
	d := driverOf(s, true)
	out, err := turns(t, d, erase, driver.Turn{})
	if err != nil || !out.Callback || out.Park <= 0 || out.Phase != phaseSent || out.Handle != "c2" {
		t.Fatalf("got %+v, %v, want it to wait for the command c2", out, err)
	}
	following := driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle, Heard: true}
	if out, err := turns(t, d, erase, following); err != nil || !out.Callback {
		t.Errorf("while it runs: %+v, %v, want it to wait on", out, err)
	}
	s.end(agent.CommandSucceeded, nil)
	if out, err := turns(t, d, erase, following); err != nil || !out.Done() {
		t.Errorf("at its end: %+v, %v, want it done", out, err)
	}
	if len(s.sent) != 1 {
		t.Errorf("%d commands were sent, want 1", len(s.sent))
	}
}

func TestCommandWhoseAnswerWasLostIsNotSentAgain(t *testing.T) {
	for name, attempt := range map[string]driver.Attempt{"the process goes on": driver.Unknown, "after a refusal": driver.Refused} {
		t.Run(name, func(t *testing.T) {
			s := &standIn{commands: []agent.Command{asked}, lose: errLost}
			d := driverOf(s, true)
			if _, err := turns(t, d, erase, driver.Turn{}); !errors.Is(err, errLost) {
				t.Fatalf("got %v, want the lost answer", err)
			}
			out, err := turns(t, d, erase, driver.Turn{Attempt: attempt, Phase: phaseToSend, Handle: "c0"})
			if err != nil || out.Handle != "c2" || len(s.sent) != 1 {
				t.Errorf("got %+v, %v with %d sent, want the command that was begun to be followed", out, err, len(s.sent))
			}
		})
	}
}

func TestRefusedCommandIsSentAgain(t *testing.T) {
	s := &standIn{commands: []agent.Command{asked}, refuse: errRefused}
	d := driverOf(s, true)
	if _, err := turns(t, d, erase, driver.Turn{}); !errors.Is(err, errRefused) {
		t.Fatalf("got %v, want the refusal", err)
	}
	out, err := turns(t, d, erase, driver.Turn{Attempt: driver.Refused, Phase: phaseToSend, Handle: "c0"})
	if err != nil || !out.Callback || len(s.sent) != 1 {
		t.Errorf("got %+v, %v with %d sent, want it sent", out, err, len(s.sent))
	}
}

func TestFailuresOfCommandsSayWhatHappened(t *testing.T) {
	failed := &agent.CommandError{Type: "CommandExecutionError", Message: "Command execution failed", Details: "disk is read-only"}
	for name, tc := range map[string]struct {
		list    []agent.Command
		silent  error
		running bool
		elapsed bool
		want    string // in the error; empty means that it waits on
	}{
		"failed":                      {list: []agent.Command{{ID: "c1", Status: agent.CommandFailed, Error: failed}}, running: true, want: "disk is read-only"},
		"other hardware managers":     {list: []agent.Command{{ID: "c1", Status: agent.CommandVersionMismatch}}, running: true, want: "other hardware managers"},
		"restarted":                   {list: []agent.Command{{ID: "x", Status: agent.CommandRunning}}, running: true, want: "restarted since"},
		"unreachable, with beats":     {silent: errLost, running: true},
		"unreachable, without beats":  {silent: errLost, want: "vanished"},
		"answers what cannot be read": {silent: errUnusable, running: true, want: "it is too large"},
		"runs for days":               {list: []agent.Command{{ID: "c1", Status: agent.CommandRunning}}, running: true, elapsed: true, want: "did not end within 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			turn := driver.Turn{Attempt: driver.Continued, Phase: phaseSent, Handle: "c1"}
			if tc.elapsed {
				turn.Elapsed = time.Hour
			}
			out, err := driverOf(&standIn{commands: tc.list, silent: tc.silent}, tc.running).run(t.Context(), machine, erase, turn)
			if tc.want == "" && (err != nil || !out.Callback || out.Handle != "c1") {
				t.Errorf("got %+v, %v, want it to wait on", out, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestCommandOfAnAgentThatHadNoneIsNotSentToItsSuccessor loses the first command of an agent,
// which then starts anew: its list of commands is as empty as before.
func TestCommandOfAnAgentThatHadNoneIsNotSentToItsSuccessor(t *testing.T) {
	s := &standIn{}
	out, err := driverOf(s, true).run(t.Context(), machine, erase, driver.Turn{})
	if err != nil || out.Phase != phaseToSend {
		t.Fatalf("got %+v, %v, want it about to be sent", out, err)
	}
	s.lose = errLost
	sending := driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}
	if _, err := driverOf(s, true).run(t.Context(), machine, erase, sending); !errors.Is(err, errLost) {
		t.Fatalf("got %v, want the lost answer", err)
	}
	again := &standIn{}
	sending.Attempt = driver.Unknown
	_, err = driverOf(again, true).run(t.Context(), machine, erase, sending)
	if err == nil || !strings.Contains(err.Error(), "restarted since") || len(again.sent) > 0 {
		t.Errorf("got %v with %d sent, want the failure that the outcome is unknown", err, len(again.sent))
	}
}

func TestAgentThatGoesDownWithItsCommandHasDoneIt(t *testing.T) {
	reboot := order{name: "standby.run_image", lost: true}
	s := &standIn{commands: []agent.Command{asked}}
	if out, err := turns(t, driverOf(s, true), reboot, driver.Turn{}); err != nil || !out.Done() || len(s.sent) != 1 {
		t.Errorf("accepted: %+v, %v with %d sent, want it done", out, err, len(s.sent))
	}
	s.silent = errRefused
	lost := driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"}
	if out, err := driverOf(s, false).run(t.Context(), machine, reboot, lost); err != nil || !out.Done() {
		t.Errorf("the answer was lost: %+v, %v, want it done", out, err)
	}
}

// TestRestartThatWasNeverSentIsNotTakenForDone has the engine die before it sends a restart,
// and then not reach the agent, which goes on sending heartbeats.
func TestRestartThatWasNeverSentIsNotTakenForDone(t *testing.T) {
	reboot := order{name: "standby.run_image", lost: true}
	s := &standIn{commands: []agent.Command{asked}, silent: errRefused}
	d := driverOf(s, true)
	out, err := d.run(t.Context(), machine, reboot, driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"})
	if err != nil || out.Park <= 0 {
		t.Fatalf("while it is not reached: %+v, %v, want it to be asked later", out, err)
	}
	waiting := driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle, Elapsed: longestRestart}
	if out, err := d.run(t.Context(), machine, reboot, waiting); err == nil {
		t.Errorf("not reached for long: %+v, want a failure", out)
	}
	s.silent, waiting.Elapsed = nil, 0
	if out, err := d.run(t.Context(), machine, reboot, waiting); err != nil || !out.Done() || len(s.sent) != 1 {
		t.Errorf("reached again: %+v, %v with %d sent, want it sent", out, err, len(s.sent))
	}
	if _, err := d.run(t.Context(), machine, reboot, waiting); err != nil || len(s.sent) != 1 {
		t.Errorf("asked once more: %v with %d sent, want nothing sent", err, len(s.sent))
	}
}

// TestAgentThatNobodyListenedToIsNotTakenForGone has the engine come back after an absence in
// which it could hear no heartbeat, and the first call fail.
func TestAgentThatNobodyListenedToIsNotTakenForGone(t *testing.T) {
	s := &standIn{commands: []agent.Command{asked}, silent: errRefused}
	d := driverOf(s, false)
	d.options.Silent = func(*node.Node) bool { return false }
	for name, tc := range map[string]struct {
		order order
		turn  driver.Turn
	}{
		"restart": {order{name: "standby.run_image", lost: true}, driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"}},
		"step":    {erase, driver.Turn{Attempt: driver.Continued, Phase: phaseSent, Handle: "c1"}},
	} {
		if out, err := d.run(t.Context(), machine, tc.order, tc.turn); err != nil || out.Park <= 0 {
			t.Errorf("%s: %+v, %v, want it to be asked later", name, out, err)
		}
	}
}

// TestRebootWhoseAnswerWasLostIsDoneWhenTheAgentIsGone looks at requests of this release and of
// earlier ones, which sent the command in their first turn.
func TestRebootWhoseAnswerWasLostIsDoneWhenTheAgentIsGone(t *testing.T) {
	taken := agent.Command{ID: "c1", Name: "run_image", Status: agent.CommandRunning}
	for name, tc := range map[string]struct {
		turn    driver.Turn
		list    []agent.Command
		silent  error
		running bool // it sends heartbeats
		done    bool
	}{
		"it has the command":             {driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"}, []agent.Command{asked, taken}, nil, true, true},
		"it is gone":                     {driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"}, nil, errRefused, false, true},
		"it may live":                    {driver.Turn{Attempt: driver.Unknown, Phase: phaseToSend, Handle: "c0"}, nil, errRefused, true, false},
		"earlier, it has the command":    {driver.Turn{Attempt: driver.Unknown}, []agent.Command{asked, taken}, nil, true, true},
		"earlier, it never got anything": {driver.Turn{Attempt: driver.Unknown}, []agent.Command{asked}, nil, true, false},
	} {
		s := &standIn{commands: tc.list, silent: tc.silent}
		out, err := driverOf(s, tc.running).Reboot(t.Context(), machine, tc.turn)
		if err != nil || out.Done() != tc.done || len(s.sent) > 0 {
			t.Errorf("%s: %+v, %v with %d sent, want it done: %v", name, out, err, len(s.sent), tc.done)
		}
	}
}

// TestAgentThatIsGoneBeforeARebootWasPreparedHasNotDoneIt has the first turn fail, which sends no
// restart, and the agent fall silent.
func TestAgentThatIsGoneBeforeARebootWasPreparedHasNotDoneIt(t *testing.T) {
	s := &standIn{silent: errRefused}
	if out, err := driverOf(s, false).Reboot(t.Context(), machine, driver.Turn{Attempt: driver.Unknown}); err == nil {
		t.Errorf("got %+v, want a failure", out)
	}
}

func TestPhaseOfAnotherReleaseSendsNothing(t *testing.T) {
	s := &standIn{}
	if _, err := driverOf(s, true).run(t.Context(), machine, erase, driver.Turn{Phase: "from the future"}); err == nil || len(s.sent) > 0 {
		t.Errorf("got %v with %d sent, want a failure and nothing sent", err, len(s.sent))
	}
}

// TestStepGetsWhatItReadsOfTheNode also wants that secrets of the instance are only in the
// documents of steps that deploy.
func TestStepGetsWhatItReadsOfTheNode(t *testing.T) {
	n := &node.Node{
		UUID: "node-1", ProvisionState: node.Deploying,
		DriverInfo:   node.ObjectOf(map[string]any{"agent_burnin_cpu_timeout": 600, "redfish_password": "secret"}),
		Properties:   node.ObjectOf(map[string]any{"inject_files": []string{"a"}, "serial": "s"}),
		InstanceInfo: node.ObjectOf(map[string]any{"configdrive": map[string]any{"user_data": "ignition"}, "image_source": "http://192.0.2.1/i", "image_pull_secret": "secret"}),
	}
	given := map[string]string{"configdrive": `{"user_data":"ignition"}`, "image_source": `"http://192.0.2.1/i"`}
	for name, tc := range map[string]struct {
		kind     driver.StepKind
		step     string
		instance map[string]string
	}{
		"a hardware manager deploys": {driver.DeploySteps, "install_coreos", given},
		// The image comes in the arguments of the step.
		"the agent writes the image": {driver.DeploySteps, writeImage.Step, map[string]string{}},
		"cleaning":                   {driver.CleanSteps, "burnin_cpu", map[string]string{}},
	} {
		s := &standIn{commands: []agent.Command{asked}}
		if _, err := driverOf(s, true).runAgentStep(t.Context(), n, tc.kind, node.Step{Interface: "deploy", Step: tc.step}, driver.Turn{Attempt: driver.Continued, Phase: phaseToSend, Handle: asked.ID}); err != nil || len(s.sent) != 1 {
			t.Fatalf("%s: %d commands were sent, %v", name, len(s.sent), err)
		}
		text, err := json.Marshal(s.sent[0]["node"])
		var document struct {
			State        node.State                 `json:"provision_state"`
			DriverInfo   map[string]json.RawMessage `json:"driver_info"`
			Properties   map[string]json.RawMessage `json:"properties"`
			InstanceInfo map[string]json.RawMessage `json:"instance_info"`
		}
		if err = errors.Join(err, json.Unmarshal(text, &document)); err != nil {
			t.Fatal(err)
		}
		instance := map[string]string{}
		for key, value := range document.InstanceInfo {
			instance[key] = string(value)
		}
		if !maps.Equal(instance, tc.instance) || len(document.DriverInfo) != 1 || len(document.Properties) != 1 || document.State != node.Deploying {
			t.Errorf("%s: got %s, want instance_info %v, one setting of burn-ins and the files to inject", name, text, tc.instance)
		}
	}
}

// TestCommandIsNotSentAgainWhenWhatWasStoredOfItIsLost has turns of an order of which an older
// database knows only that it may have begun.
func TestCommandIsNotSentAgainWhenWhatWasStoredOfItIsLost(t *testing.T) {
	wipe := node.Step{Interface: "deploy", Step: "erase_devices", Args: map[string]any{"passes": 2}}
	ran := func(step string) json.RawMessage {
		return json.RawMessage(`{"clean_result":null,"clean_step":` + step + `}`)
	}
	for name, test := range map[string]struct {
		last agent.Command
		sent int
		want func(out driver.Outcome, err error) bool
	}{
		"it runs": {agent.Command{Status: agent.CommandRunning}, 0, func(out driver.Outcome, err error) bool {
			return err == nil && out.Callback && out.Phase == phaseSent && out.Handle == "c1"
		}},
		"it has succeeded": {agent.Command{
			Status: agent.CommandSucceeded, Result: ran(`{"interface":"deploy","step":"erase_devices","priority":10,"args":{"passes":2}}`),
		}, 0, func(out driver.Outcome, err error) bool { return err == nil && out.Done() }},
		"it has failed": {agent.Command{Status: agent.CommandFailed}, 0, func(_ driver.Outcome, err error) bool { return err != nil }},
		"another step has succeeded": {agent.Command{
			Status: agent.CommandSucceeded, Result: ran(`{"interface":"deploy","step":"erase_devices_metadata","args":{"passes":2}}`),
		}, 1, waits},
		"the step has succeeded with other arguments": {agent.Command{
			Status: agent.CommandSucceeded, Result: ran(`{"interface":"deploy","step":"erase_devices","args":{}}`),
		}, 1, waits},
		"another command has succeeded": {agent.Command{Name: "get_clean_steps", Status: agent.CommandSucceeded}, 1, waits},
	} {
		t.Run(name, func(t *testing.T) {
			test.last.ID, test.last.Name = "c1", cmp.Or(test.last.Name, "execute_clean_step")
			s := &standIn{commands: []agent.Command{test.last}}
			d := driverOf(s, true)
			out, err := turns(t, d, d.stepOrder(machine, driver.CleanSteps, wipe), driver.Turn{Attempt: driver.Unknown})
			if !test.want(out, err) || len(s.sent) != test.sent {
				t.Errorf("got %+v, %v, and %d commands were sent, want %d", out, err, len(s.sent), test.sent)
			}
		})
	}
}

// TestSecondOfTwoEqualStepsIsSentThoughTheAgentIsNotReachedAtFirst loses an answer with the list of
// commands before the second step is sent. The last command of that list is that of the first step.
func TestSecondOfTwoEqualStepsIsSentThoughTheAgentIsNotReachedAtFirst(t *testing.T) {
	wipe := node.Step{Interface: "deploy", Step: "erase_devices"}
	n, s := &node.Node{UUID: "node-1"}, &standIn{commands: []agent.Command{asked}}
	d := driverOf(s, true)
	turn := driver.Turn{}
	for range 2 {
		for done := false; !done; {
			out, err := d.runAgentStep(t.Context(), n, driver.CleanSteps, wipe, turn)
			if err != nil {
				t.Fatal(err)
			}
			if out.Apply != nil {
				out.Apply(n)
			}
			turn, done = driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}, out.Done()
			if out.Callback {
				s.end(agent.CommandSucceeded, nil)
				s.commands[len(s.commands)-1].Result = json.RawMessage(`{"clean_step":{"interface":"deploy","step":"erase_devices"}}`)
			}
		}
		s.silent = errLost
		if _, err := d.runAgentStep(t.Context(), n, driver.CleanSteps, wipe, driver.Turn{}); !errors.Is(err, errLost) {
			t.Fatalf("got %v, want the lost answer", err)
		}
		s.silent, turn = nil, driver.Turn{Attempt: driver.Unknown}
	}
	if len(s.sent) != 2 {
		t.Errorf("%d commands were sent, want one of each step", len(s.sent))
	}
}

// waits reports whether a turn waits for the command that was sent.
func waits(out driver.Outcome, err error) bool { return err == nil && out.Callback }
