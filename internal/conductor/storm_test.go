package conductor

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// TestStopDuringAStormLosesNoAnsweredPost stops and starts the conductor while
// machines post, and checks every answer that was given.
func TestStopDuringAStormLosesNoAnsweredPost(t *testing.T) {
	w := emptyWorld(t)
	current := w.start("conductor-1")
	const machines, restarts = 150, 3
	var mu sync.Mutex
	answered := map[string]bool{}
	var posting sync.WaitGroup
	for poster := range 5 {
		posting.Go(func() {
			for i := poster; i < machines; i += 5 {
				mu.Lock()
				c := current
				mu.Unlock()
				answer, err := send(t, c, unknown(i))
				if err != nil {
					t.Errorf("post %d: %v", i, err)
					continue
				}
				mu.Lock()
				answered[answer.Node.UUID] = true
				mu.Unlock()
			}
		})
	}
	for range restarts {
		mu.Lock()
		old := current
		mu.Unlock()
		if err := old.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		next := w.start("conductor-1")
		mu.Lock()
		current = next
		mu.Unlock()
	}
	posting.Wait()
	// A post that the stopped conductor took after its end is like a crash.
	if err := current.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	w.start("conductor-1")
	w.awaitWorkDone()
	nodes := w.all()
	if len(nodes) != machines || len(answered) != machines {
		t.Errorf("%d nodes of %d answers, want %d", len(nodes), len(answered), machines)
	}
	for _, n := range nodes {
		if !answered[n.UUID] || n.InspectionFinishedAt.IsZero() || n.LastError != "" || len(w.portsOf(n)) != 2 || n.Lease != (node.Lease{}) {
			t.Errorf("node %s, answered %v, last_error %q, lease %+v: want it whole", n.UUID, answered[n.UUID], n.LastError, n.Lease)
		}
		if rows := w.history(n); len(rows) != 1 {
			t.Errorf("history = %q, want the enrolment once", rows)
		}
	}
}

func TestTwoConductorsShareOneDatabase(t *testing.T) {
	w := emptyWorld(t)
	conductors := []*Conductor{w.start("conductor-1"), w.start("conductor-2")}
	unstarted := w.idle("conductor-3") // its work is for whoever comes first
	const machines = 60
	for _, err := range concurrently(machines, func(i int) error {
		_, err := send(t, append(conductors, unstarted)[i%3], unknown(i))
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	w.clock.Advance(unstarted.cfg.LeaseTTL)
	for _, c := range conductors {
		c.runner.WakeClaim()
	}
	w.awaitWorkDone()
	for _, n := range w.all() {
		if n.InspectionFinishedAt.IsZero() || n.LastError != "" || len(w.portsOf(n)) != 2 {
			t.Errorf("node %s: last_error %q, %d ports", n.UUID, n.LastError, len(w.portsOf(n)))
		}
	}
	// Requests for one node may reach either of them.
	n := w.all()[0].UUID
	for _, err := range concurrently(40, func(i int) error {
		_, err := conductors[i%2].UpdateNode(t.Context(), n, func(n *node.Node) error {
			n.Extra = n.Extra.With(map[string]any{unknown(i).macs[0]: true})
			return nil
		})
		return err
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := len(w.stored(n).Extra.Fields()); got != 40 {
		t.Errorf("%d keys, want those of both conductors, 40", got)
	}
}

// TestRecordedMachinesAreEnrolled posts what real and unusual machines have sent.
func TestRecordedMachinesAreEnrolled(t *testing.T) {
	files, err := filepath.Glob("../inventory/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("recordings: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t)
			answer, err := w.ContinueInspection(t.Context(), node.InspectionPost{Body: body})
			if err != nil {
				t.Fatal(err)
			}
			w.awaitWorkDone()
			n := w.stored(answer.Node.UUID)
			if n.LastError != "" || len(w.portsOf(n)) == 0 || n.Properties.Text("cpu_arch") == "" {
				t.Errorf("last_error %q, %d ports, properties %s", n.LastError, len(w.portsOf(n)), n.Properties)
			}
			if _, err := w.Inspection(t.Context(), n.UUID); err != nil {
				t.Error(err)
			}
		})
	}
}
