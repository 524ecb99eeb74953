package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
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
			"clean": c.leaveCleaned, "deploy": c.leaveUndeployed, "service": c.leaveServiced, "rescue": c.leaveRescued,
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

// TestLogsThatCannotBeHadEndNothing has an agent that is busy with the step that has failed.
func TestLogsThatCannotBeHadEndNothing(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	c, _, _ := withRamdisk(t)
	operation := c.collectLogs(runner.Task{Work: &store.Work{Kind: workClean}, Node: n}, true)
	if operation.Optional == nil || operation.Within <= 0 || operation.Within >= time.Minute {
		t.Fatalf("optional %v, within %s, want it to delay a failure by less than a minute", operation.Optional != nil, operation.Within)
	}
	w.write(func(tx *store.Tx) error { return operation.Optional(errors.New("Agent is busy"))(tx, n) })
	if rows := w.history(n); !strings.Contains(rows[len(rows)-1], "could not be kept: Agent is busy") {
		t.Errorf("history %q", rows)
	}
}
