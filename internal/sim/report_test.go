package sim_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
)

func TestReportEndsWhenAllMachinesRun(t *testing.T) {
	machines := newMachines(t, newStandIn(t), 3, nil)
	if err := machines.PowerOn(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := machines.Report(soon(t), &out, time.Millisecond, true); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "3/3 machines running\n") {
		t.Errorf("report is %q, want it to end with all machines running", out.String())
	}
	if got := machines.Summary(); !strings.Contains(got, "inspect    200               3\n") {
		t.Errorf("summary is %q, want 3 accepted posts", got)
	}
}

func TestReportThatIsInterruptedCountsTheMachinesInEachState(t *testing.T) {
	engine := newStandIn(t)
	engine.down.Store(true)
	machines := newMachines(t, engine, 2, nil)
	if err := machines.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	refused := sim.Answer{Call: agent.CallInspect, Status: 503}
	if err := machines.Wait(soon(t), func(s sim.Snapshot) bool { return s.Answers[refused] > 0 }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	err := machines.Report(ctx, &out, time.Millisecond, true)
	if err == nil || !strings.Contains(err.Error(), "0/2 machines running, 1 powered off, 1 posting inspection data (inspect: 503 Service Unavailable)") {
		t.Errorf("error is %v, want it to say where the machines are", err)
	}
	if err := machines.Report(ctx, &out, time.Millisecond, false); err != nil {
		t.Errorf("report without a goal ends with %v", err)
	}
}

func TestProgressLineCountsEveryMachine(t *testing.T) {
	snapshot := sim.Snapshot{States: map[sim.State]int{}}
	for i, state := range []sim.State{
		sim.Off, sim.Starting, sim.On, sim.OS, sim.Booting, sim.Inspecting, sim.LookingUp, sim.Running, sim.Rescued, sim.Failed,
	} {
		snapshot.States[state] = 1 << i
		snapshot.Machines += 1 << i
	}
	line, counted := snapshot.String(), 0
	for part := range strings.SplitSeq(line, ", ") {
		count, text, _ := strings.Cut(part, " ")
		count, _, _ = strings.Cut(count, "/") // of all, in the first part
		n, err := strconv.Atoi(count)
		if err != nil || text == "" {
			t.Errorf("%q in %q, want a number and a text", part, line)
		}
		counted += n
	}
	if counted != snapshot.Machines {
		t.Errorf("%q has %d machines, want %d", line, counted, snapshot.Machines)
	}
}
