package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// listener is an observer that remembers its notices, without durations.
type listener struct {
	mu      sync.Mutex
	notices []string
}

func (l *listener) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = append(l.notices, fmt.Sprintf(format, args...))
}

func (l *listener) WorkEnded(kind string, outcome runner.Outcome, _ time.Duration) {
	l.add("%s %s", kind, outcome)
}
func (l *listener) LeaseWaited(_ time.Duration, gotTurn bool) { l.add("waited %t", gotTurn) }
func (l *listener) AddressesLeftOut(count int) {
	if count > 0 {
		l.add("left out %d", count)
	}
}
func (l *listener) PostEnded(outcome PostOutcome) { l.add("post %s", outcome) }

func TestObserverGetsOutcomesOfWork(t *testing.T) {
	var observer listener
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.Observer = &observer; cfg.MaxAttempts = 2 })
	w.Conductor = c
	stopped, stop := context.WithCancel(t.Context())
	stop()
	run := func(ctx context.Context, kind store.WorkKind, state node.State, attempts int) {
		t.Helper()
		n := w.fake(state, nil)
		var j *runner.Job
		w.write(func(tx *store.Tx) error {
			work, err := c.leasedWork(tx, n, kind, nil)
			if err != nil {
				return err
			}
			work.Attempts = attempts
			if attempts > 0 { // the end of the work failed then
				work.Checkpoint = `{"done":{"name":"adopt"}}`
			}
			j = runner.NewJob(work, nil, nil)
			return tx.AddWork(work)
		})
		c.runner.Enqueue(j)
		if kind == workClean {
			w.write(func(tx *store.Tx) error { return tx.EndLeasesKeepBusy("conductor-1") })
		}
		if kind == workService {
			w.write(func(tx *store.Tx) error { return tx.DeleteNode(n) })
		}
		if !c.runner.RunNext(ctx) {
			t.Fatal("no work waits")
		}
	}

	run(t.Context(), workVerify, node.Verifying, 0)
	run(t.Context(), "nosuch", node.Enroll, 0)
	run(t.Context(), workVerify, node.Enroll, 0) // its state does not allow it
	run(t.Context(), workAdopt, node.Enroll, 0)  // nor that of this, which is tried again
	run(t.Context(), workAdopt, node.Enroll, 1)
	run(stopped, workVerify, node.Verifying, 0)
	run(t.Context(), workClean, node.Cleaning, 0)    // whose lease is lost
	run(t.Context(), workService, node.Servicing, 0) // whose node is deleted

	want := []string{
		"verify done", "nosuch left", "verify failed", "adopt postponed", "adopt failed", "verify stopped", "clean lost", "service dropped",
	}
	if diff := cmp.Diff(want, observer.notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// slow is an observer that is still being told that work waits when the work has ended.
type slow struct {
	noObserver
	ended   chan struct{}
	testEnd <-chan struct{}
}

func (s slow) WorkEnded(_ string, outcome runner.Outcome, _ time.Duration) {
	if outcome == runner.Done {
		close(s.ended)
	}
	select {
	case <-s.ended:
	case <-s.testEnd:
	}
}

// TestWorkGoesOnWhileItsObserverIsTold finds with the race detector what both use.
func TestWorkGoesOnWhileItsObserverIsTold(t *testing.T) {
	w := newWorld(t, func(cfg *Config) { cfg.Observer = slow{ended: make(chan struct{}), testEnd: t.Context().Done()} })
	n := w.fake(node.Enroll, map[string]any{"fake_verify_delay": 5})
	w.send(n, "manage")
	w.eventually("the work to wait", func() bool { return w.delayed() == 1 })
	w.pass(10 * time.Second)
	w.arrive(n, node.Manageable)
}

func TestLogHasRequestsAndTheirOutcomes(t *testing.T) {
	var out strings.Builder
	w := emptyWorld(t)
	w.out = &out
	w.Conductor = w.idle("conductor-1")
	for verb, state := range map[string]node.State{"manage": node.Enroll, "inspect": node.Manageable} {
		n := w.fake(state, map[string]any{"fake_inspect_error": "lens cap"})
		w.send(n, verb, func(r *node.VerbRequest) { r.User = "ann" })
		w.runner.RunNext(t.Context())
	}
	for _, want := range []string{
		`level=INFO msg="Verb accepted" node=`, "verb=manage state=verifying user=ann", `level=INFO msg="Work done" node=`, "work=verify state=manageable",
		`level=WARN msg="Work failed for good" node=`, `work=inspection state="inspect failed" err="Failed to inspect node`, "lens cap",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %s:\n%s", want, out.String())
		}
	}
}

func TestLogTellsWhichMachinesWereEnrolled(t *testing.T) {
	var out strings.Builder
	w := emptyWorld(t)
	w.out = &out
	w.Conductor = w.idle("conductor-1")
	answer, err := send(t, w.Conductor, unknown(1))
	if err != nil {
		t.Fatal(err)
	}
	if want := `level=INFO msg="Enrolled an unknown machine" node=` + answer.Node.UUID + " source="; !strings.Contains(out.String(), want) {
		t.Errorf("log = %q, want %s", out.String(), want)
	}
}

func TestObserverGetsWaitsOfRequests(t *testing.T) {
	var observer listener
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.Observer = &observer; cfg.LockWait = 2 * time.Second })
	n := w.register()
	for _, times := range []int{0, 1, 1000} {
		lease := w.lease(n, "conductor-2")
		_ = c.whenFree(t.Context(), func() error {
			if times--; times < 0 {
				return nil
			}
			if times == 0 {
				w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
			}
			return &node.LockedError{Node: n.UUID}
		})
		w.write(func(tx *store.Tx) error { return tx.EndLeaseKeepBusy(lease) })
	}
	if diff := cmp.Diff([]string{"waited true", "waited false"}, observer.notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func TestPostsAreToldApartByTheirAnswer(t *testing.T) {
	for _, test := range []struct {
		enrolled bool
		err      error
		want     PostOutcome
	}{
		{true, nil, PostEnrolled},
		{false, nil, PostAccepted},
		{false, errNoMatch, PostRefused},
		{false, node.Invalid("no"), PostInvalid},
		{true, fmt.Errorf("enrol machine: %w", node.ErrBusy), PostBusy},
		{true, errors.New("disk full"), PostError},
	} {
		if got := postOutcome(test.enrolled, test.err); got != test.want {
			t.Errorf("enrolled %t, error %v: got %s, want %s", test.enrolled, test.err, got, test.want)
		}
	}
}

func TestObserverGetsOutcomesOfPosts(t *testing.T) {
	var observer listener
	c := emptyWorld(t).idle("conductor-1", func(cfg *Config) { cfg.Observer = &observer })
	if _, err := c.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte("{"), WantsToken: true}); err == nil {
		t.Fatal("half an object was accepted")
	}
	if diff := cmp.Diff([]string{"post invalid"}, observer.notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func TestNodesAreCountedByState(t *testing.T) {
	c := emptyWorld(t).idle("conductor-1")
	for _, state := range []node.State{node.Enroll, node.Enroll, node.Available} {
		if _, err := c.CreateNode(t.Context(), &node.Node{Driver: "fake-hardware", ProvisionState: state}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.NodeStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[node.State]int{node.Enroll: 2, node.Available: 1}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if c.QueueLength() != 0 {
		t.Errorf("got queue length %d", c.QueueLength())
	}
}
