package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// TestHistoryHasEveryChangeOfANode reads what people find there after a day.
func TestHistoryHasEveryChangeOfANode(t *testing.T) {
	w := newWorld(t)
	n := w.create("fake-hardware")
	ann := func(r *node.VerbRequest) { r.User = "ann" }
	for _, do := range []struct {
		verb string
		with func(*node.VerbRequest)
		want node.State
	}{
		{"manage", ann, node.Manageable},
		{"clean", with(step("deploy.hold")), node.CleanHold},
		{"unhold", ann, node.Manageable},
		{"clean", with(step("deploy.hold")), node.CleanHold},
		{"abort", ann, node.CleanFailed},
		{"manage", ann, node.Manageable},
		{"provide", ann, node.Available},
		{"manage", ann, node.Manageable},
	} {
		w.send(n, do.verb, do.with)
		w.arrive(n, do.want)
		if do.want != node.CleanHold {
			w.awaitWorkDone()
		}
	}
	want := []string{
		`INFO verify: "manage" was asked for: the node goes from "enroll" to "verifying".`,
		`INFO verify: The node is "manageable", after 0s.`,
		`INFO clean: "clean" was asked for: the node goes from "manageable" to "cleaning".`,
		`INFO unhold: "unhold" was asked for: the node goes from "clean hold" to "clean wait".`,
		`INFO clean: The node is "manageable", after 0s.`,
		`INFO clean: "clean" was asked for: the node goes from "manageable" to "cleaning".`,
		`ERROR abort: The work on node ` + n.UUID + ` was aborted by request while it was in state "clean hold".`,
		`INFO manage: "manage" was asked for: the node goes from "clean failed" to "manageable".`,
		`INFO clean: "provide" was asked for: the node goes from "manageable" to "cleaning".`,
		`INFO clean: The node is "available", after 0s.`,
		`INFO manage: "manage" was asked for: the node goes from "available" to "manageable".`,
	}
	if diff := cmp.Diff(want, w.history(n)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	events, err := w.History(t.Context(), n.UUID, node.Query{})
	if err != nil || events[0].User != "ann" || events[1].User != "" {
		t.Errorf("users %q and %q, %v; want who asked, and nobody for what the engine did", events[0].User, events[1].User, err)
	}
}

// remarks returns a node's history without the rows that every verb has.
func (w *world) remarks(n *node.Node) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.history(n), func(row string) bool {
		return strings.Contains(row, "was asked for: the node goes from") || strings.Contains(row, ": The node is ")
	})
}

func TestAbortThatHasToWaitIsInTheHistory(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_clean_wait": 60})
	w.send(n, "clean", with(step("bios.factory_reset")))
	w.arrive(n, node.CleanWait)
	w.send(n, "abort")
	want := `INFO abort: "abort" was asked for: it follows the end of the step bios.factory_reset, which cannot be left half done.`
	if rows := w.history(n); !slices.Contains(rows, want) {
		t.Errorf("history %q, want %q in it", rows, want)
	}
}

// TestAbortTellsHowLongAStepOfTheAgentMayRun: nobody else ends it.
func TestAbortTellsHowLongAStepOfTheAgentMayRun(t *testing.T) {
	c := emptyWorld(t).idle("conductor-1", func(c *Config) { c.Limits.StepTimeout = 2 * time.Hour })
	n := &node.Node{CleanStep: node.Step{Interface: "deploy", Step: "erase_devices", RequiresRamdisk: true, AbortAfter: true}.Object()}
	for _, part := range []string{"deploy.erase_devices", "did not end within 2h0m0s", "agent.step_timeout"} {
		if got := c.awaitedEnd(n); !strings.Contains(got, part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
}

func TestHistoryOfANodeIsBounded(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.HistoryEntries = 20 })
	busy, idle := w.register(), w.register()
	write := func(n *node.Node, text string) {
		w.write(func(tx *store.Tx) error { return w.recordHistory(tx, n, node.SeverityInfo, "test", text) })
	}
	write(idle, "once")
	for i := range 100 {
		w.clock.Advance(time.Second)
		write(busy, fmt.Sprint(i))
		if got := len(w.history(busy)); got > 22 {
			t.Fatalf("%d rows after %d, want 22 at most", got, i+1)
		}
	}
	if rows := w.history(busy); len(rows) < 20 || rows[len(rows)-1] != "INFO test: 99" {
		t.Errorf("history %q, want the newest 20 at least", rows)
	}
	if rows := w.history(idle); len(rows) != 1 {
		t.Errorf("history of the other node %q, want it left alone", rows)
	}
}

// TestArrivalIsToldBesideTheErrorOfASetting has a setting fail while a verb waits.
func TestArrivalIsToldBesideTheErrorOfASetting(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, map[string]any{"fake_clean_wait": 60})
	w.send(n, "clean", with(step("bios.factory_reset")))
	w.arrive(n, node.CleanWait)
	w.eventually("the step to wait without a lease", func() bool { return w.stored(n.UUID).Lease == node.Lease{} })
	before := w.stored(n.UUID)
	after := *before
	after.LastError = "the virtual media were not attached"
	w.update(before, &after)
	w.passUntilDone()
	if rows := w.history(n); !strings.HasPrefix(rows[len(rows)-1], `INFO clean: The node is "manageable", after `) {
		t.Errorf("history = %q, want the arrival at its end", rows)
	}
}
