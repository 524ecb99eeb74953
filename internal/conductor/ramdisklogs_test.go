package conductor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// shelf remembers what it was told to keep.
type shelf struct {
	names   []string
	secrets []string
}

func (s *shelf) Keep(_ context.Context, name string, _ []byte, secrets []string) error {
	s.names, s.secrets = append(s.names, name), secrets
	return nil
}

// withAgent has the node's agent answer.
func withAgent(n *node.Node) {
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{agent.TokenKey: "t0ken", agent.URLKey: "https://192.0.2.7:9999"})
}

// collects is the name of the operation that keeps logs.
const collects = "collect logs"

func TestLogsAreKeptAsThePolicySays(t *testing.T) {
	for _, tc := range []struct {
		policy       CollectLogs
		folder       LogFolder
		agent        func(*node.Node)
		failed, ends bool
	}{
		{CollectOnFailure, &shelf{}, withAgent, true, false},
		{CollectAlways, &shelf{}, withAgent, true, true},
		{CollectNever, &shelf{}, withAgent, false, false},
		{CollectAlways, nil, withAgent, false, false},
		{CollectAlways, &shelf{}, func(*node.Node) {}, false, false},
	} {
		c, _, n := withRamdisk(t, startedBy, tc.agent, inTheRamdisk)
		c.cfg.Logs = RamdiskLogs{Collect: tc.policy, Folder: tc.folder}
		task := runner.Task{Work: &store.Work{ID: 7, Kind: workClean}, Node: n}
		for name, leaves := range map[string]func(runner.Task) []runner.Operation{
			"clean": c.cleanUpCleaning, "deploy": c.cleanUpDeployment, "service": c.cleanUpServicing, "rescue": c.cleanUpRescue,
		} {
			if got := slices.Contains(unskipped(leaves(task)), collects); got != tc.failed {
				t.Errorf("%s, %+v: logs of a failure are kept: %v", name, tc, got)
			}
		}
		for name, script := range map[string]func(runner.Task) ([]runner.Operation, error){"clean": c.cleanOperations, "service": c.serviceOperations} {
			operations, err := script(task)
			if got := slices.Contains(unskipped(operations), collects); err != nil || got != tc.ends {
				t.Errorf("%s, %+v: logs of the end are kept: %v, %v", name, tc, got, err)
			}
		}
		step := node.Step{Interface: "deploy", Step: node.StepTearDownAgent}
		if got := slices.Contains(planned(t, c, n, step), collects); got != tc.ends {
			t.Errorf("deploy, %+v: logs of the end are kept: %v", tc, got)
		}
	}
}

func TestLogsThatARamdiskPostsAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  CollectLogs
		failure string
		noArch  bool // a hook fails
		unknown bool
		kept    bool
	}{
		"failure":                       {policy: CollectOnFailure, failure: "boom", kept: true},
		"success":                       {policy: CollectOnFailure},
		"success, all":                  {policy: CollectAlways, kept: true},
		"failure, none":                 {policy: CollectNever, failure: "boom"},
		"failed hook":                   {policy: CollectOnFailure, noArch: true, kept: true},
		"failed hook, all":              {policy: CollectAlways, noArch: true, kept: true},
		"failed hook, none":             {policy: CollectNever, noArch: true},
		"failed hook, unknown machine":  {policy: CollectOnFailure, noArch: true, unknown: true},
		"failure of an unknown machine": {policy: CollectAlways, failure: "boom", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &shelf{}
			w := newWorld(t, func(c *Config) { c.Logs = RamdiskLogs{Collect: tc.policy, Folder: kept} })
			m := unknown(1)
			m.failure = tc.failure
			if tc.noArch {
				m.arch = ""
			}
			if !tc.unknown {
				w.addPort(waiting(w), m.macs[0])
			}
			n := w.enrol(m)
			rows := strings.Join(w.history(n), "\n")
			if told := strings.Contains(rows, "The logs of the ramdisk are in the file "+n.UUID); told != tc.kept || (len(kept.names) == 1) != tc.kept {
				t.Errorf("files %q, history %q; want logs kept: %v", kept.names, rows, tc.kept)
			}
		})
	}
}

// keepFunc is a folder of one function.
type keepFunc func(ctx context.Context) error

func (f keepFunc) Keep(ctx context.Context, _ string, _ []byte, _ []string) error { return f(ctx) }

// TestPostGivesItsSlotBackBeforeItsLogsAreKept has a ramdisk post logs whose folder others may keep busy.
func TestPostGivesItsSlotBackBeforeItsLogsAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		room bool
		want string
	}{
		"room to wait":    {room: true, want: "The logs of the ramdisk are in the file "},
		"no room to wait": {want: "The logs of the ramdisk could not be kept: wait for others"},
	} {
		t.Run(name, func(t *testing.T) {
			given, kept := 0, 0
			folder := keepFunc(func(ctx context.Context) error {
				if deadline, _ := ctx.Deadline(); given != 1 || time.Until(deadline) > postedLogsWithin {
					t.Errorf("slot given back %d times, deadline %v; want once before, and the bound", given, deadline)
				}
				kept++
				return nil
			})
			w := newWorld(t, func(c *Config) { c.Logs = RamdiskLogs{Collect: CollectAlways, Folder: folder} })
			n, m := waiting(w), unknown(1)
			w.addPort(n, m.macs[0])
			hold := fairqueue.Hold{Wait: func() (func(), bool) { return func() {}, tc.room }}
			hold.Add(func() { given++ })
			if _, err := w.ContinueInspection(fairqueue.With(t.Context(), &hold), node.InspectionPost{Body: m.body()}); err != nil {
				t.Fatal(err)
			}
			w.awaitWorkDone()
			if rows := strings.Join(w.history(n), "\n"); !strings.Contains(rows, tc.want) || (kept == 1) != tc.room {
				t.Errorf("kept %d times, history %q; want %q", kept, rows, tc.want)
			}
		})
	}
}

// TestLogsAreNotAskedForWhereTheAgentIsNeededOn has the policy always, machines whose ramdisk
// goes on after cleaning, and ones that only their agents can restart: an agent is asked once, and
// its list of answers may be too long to be read afterwards.
func TestLogsAreNotAskedForWhereTheAgentIsNeededOn(t *testing.T) {
	fast := func(n *node.Node) {
		n.DriverInfo = n.DriverInfo.With(map[string]any{"fast_track": true})
	}
	noBMC := func(n *node.Node) {
		n.Driver, n.DriverInfo, n.Interfaces[node.PowerInterface], n.Interfaces[node.ManagementInterface] = "manual-management", nil, "agent", "noop"
	}
	for name, tc := range map[string]struct {
		change func(*node.Node)
		want   []string
	}{
		"fast track":    {fast, []string{"clean failed", "deploy ended", "deploy failed", "service ended", "service failed"}},
		"without a BMC": {noBMC, []string{"clean failed", "deploy failed"}},
	} {
		c, _, n := withRamdisk(t, startedBy, withAgent, inTheRamdisk, tc.change)
		c.cfg.Logs = RamdiskLogs{Collect: CollectAlways, Folder: &shelf{}}
		task := runner.Task{Work: &store.Work{ID: 7, Kind: workClean}, Node: n}
		ended := func(script func(runner.Task) ([]runner.Operation, error)) []string {
			operations, err := script(task)
			if err != nil {
				t.Fatal(err)
			}
			return unskipped(operations)
		}
		operations := map[string][]string{
			"clean ended": ended(c.cleanOperations), "clean failed": unskipped(c.cleanUpCleaning(task)),
			"service ended": ended(c.serviceOperations), "service failed": unskipped(c.cleanUpServicing(task)),
			"deploy ended":  planned(t, c, n, node.Step{Interface: "deploy", Step: node.StepTearDownAgent}),
			"deploy failed": unskipped(c.cleanUpDeployment(task)),
		}
		var got []string
		for _, moment := range slices.Sorted(maps.Keys(operations)) {
			if slices.Contains(operations[moment], collects) {
				got = append(got, moment)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLogsThatCannotBeHadEndNothing has an agent that is busy with the step that has failed.
func TestLogsThatCannotBeHadEndNothing(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	c, _, _ := withRamdisk(t)
	operation := c.collectLogs(runner.Task{Work: &store.Work{Kind: workClean}, Node: n}, true)
	if operation.OnFailure == nil || operation.Within <= 0 || operation.Within >= time.Minute {
		t.Fatalf("optional %v, within %s, want it to delay a failure by less than a minute", operation.OnFailure != nil, operation.Within)
	}
	w.write(func(tx *store.Tx) error { return operation.OnFailure(errors.New("Agent is busy"))(tx, n) })
	if rows := w.history(n); !strings.Contains(rows[len(rows)-1], "could not be kept: Agent is busy") {
		t.Errorf("history %q", rows)
	}
}

// askedAgents are agents that are asked for logs.
type askedAgents struct {
	busyAgents
	asked func(context.Context)
}

func (a askedAgents) Execute(ctx context.Context, _ *node.Node, _ string, _ map[string]any, _ bool) (agent.Command, error) {
	a.asked(ctx)
	return agent.Command{ID: "c1", Status: agent.CommandSucceeded, Result: []byte(`{"system_logs":"bG9ncw=="}`)}, ctx.Err()
}

// collecting returns a conductor that was not started and has work that collects logs, after an
// operation that reads, and what keeps the logs.
func collecting(w *world, read func(), asked func(context.Context), changes ...func(*Config)) (c *Conductor, n *node.Node, kept *shelf) {
	w.t.Helper()
	kept = &shelf{}
	c = w.idle("conductor-1", append(changes, func(cfg *Config) {
		cfg.Logs = RamdiskLogs{Collect: CollectOnFailure, Folder: kept}
	})...)
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{
		Ramdisk: ramdisk.New(ramdisk.Options{Agents: askedAgents{asked: asked}, Running: func(*node.Node) bool { return true }}),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c.drivers = drivers
	c.scripts["polish"] = runner.Script{End: keepNode, Operations: func(t runner.Task) ([]runner.Operation, error) {
		return []runner.Operation{{Ref: runner.Ref{Name: "look"}, Read: func(context.Context, *node.Node) (runner.Write, error) {
			read()
			return nil, nil
		}}, c.collectLogs(t, true)}, nil
	}}
	n = w.register(withAgent, func(n *node.Node) { n.Interfaces[node.DeployInterface] = "direct" })
	w.write(func(tx *store.Tx) error { return tx.AddWork(&store.Work{NodeID: n.ID, Kind: "polish"}) })
	c.runner.ClaimDue(w.t.Context())
	return c, n, kept
}

func TestAgentIsAskedForLogsUnderALeaseInForceOnly(t *testing.T) {
	w := emptyWorld(t)
	ends, asked := true, 0
	c, n, kept := collecting(w, func() {
		if ends {
			w.clock.Advance(30 * time.Second)
		}
	}, func(context.Context) { asked++ })
	if !c.runner.RunNext(t.Context()) || asked != 0 {
		t.Fatalf("the agent was asked %d times after the end of the lease", asked)
	}
	ends = false
	c.runner.ClaimDue(t.Context())
	if !c.runner.RunNext(t.Context()) || asked != 1 || len(kept.names) != 1 {
		t.Errorf("the agent was asked %d times, files %q; want the logs kept under the next lease", asked, kept.names)
	}
	if rows := w.history(n); len(rows) != 1 || !strings.Contains(rows[0], "The logs of the ramdisk are in the file "+n.UUID) {
		t.Errorf("history %q, want where the logs are", rows)
	}
}

func TestAgentIsNoLongerAskedForLogsWhenTheLeaseIsLost(t *testing.T) {
	w := emptyWorld(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	c, n, kept := collecting(w, func() {}, func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}, func(cfg *Config) { cfg.LeaseTTL = 300 * time.Millisecond })
	w.Conductor = w.run(c)
	<-began
	w.loseLease(n)
	if cause := <-ended; !errors.Is(cause, node.ErrLeaseLost) {
		t.Errorf("the call ended with %v, want %v", cause, node.ErrLeaseLost)
	}
	if len(kept.names) != 0 {
		t.Errorf("files %q, want none", kept.names)
	}
}

// TestAgentIsNotAskedForLogsAgainWhenNobodyKnowsWhetherItWas is about an engine that died while it
// asked. An agent that hangs would otherwise delay what follows a failure a second time.
func TestAgentIsNotAskedForLogsAgainWhenNobodyKnowsWhetherItWas(t *testing.T) {
	asked := 0
	c, n, kept := collecting(emptyWorld(t), func() {}, func(context.Context) { asked++ })
	_, err := c.keepLogs(t.Context(), n, driver.Turn{Attempt: driver.Unknown})
	if err == nil || !strings.Contains(err.Error(), "unknown") || asked != 0 || len(kept.names) != 0 {
		t.Errorf("asked %d times, files %q, error %v; want only that the outcome is unknown", asked, kept.names, err)
	}
}
