package conductor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// listener is an observer that remembers what it heard, without durations.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func (l *listener) WorkEnded(kind string, outcome WorkOutcome, _ time.Duration) {
	l.add("%s %s", kind, outcome)
}
func (l *listener) LeaseWaited(_ time.Duration, gotTurn bool) { l.add("waited %t", gotTurn) }
func (l *listener) PostEnded(outcome PostOutcome)             { l.add("post %s", outcome) }

func TestObserverHearsHowWorkEnds(t *testing.T) {
	var ear listener
	w := emptyWorld(t)
	c := w.idle("conductor-1", func(cfg *Config) { cfg.Observer = &ear; cfg.MaxAttempts = 2 })
	stopped, stop := context.WithCancel(t.Context())
	stop()
	begin := func(kind store.WorkKind, attempts int) job {
		t.Helper()
		n, err := c.CreateNode(t.Context(), &node.Node{Driver: "fake-hardware"})
		if err != nil {
			t.Fatal(err)
		}
		var j *job
		err = w.store.Write(t.Context(), func(tx *store.Tx) (err error) {
			j, err = c.startWork(tx, n, kind, nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		j.Attempts = attempts
		return *j
	}
	inState := func(j job, state node.State) job {
		t.Helper()
		err := w.store.Write(t.Context(), func(tx *store.Tx) error {
			before, err := tx.NodeByID(j.NodeID)
			if err != nil {
				return err
			}
			after := *before
			after.ProvisionState = state
			return tx.UpdateNode(before, &after)
		})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}

	c.runJob(t.Context(), inState(begin(workVerify, 0), node.Verifying))
	c.runJob(t.Context(), begin("nosuch", 0))
	c.runJob(t.Context(), begin(workVerify, 0)) // its state does not allow it
	c.runJob(t.Context(), begin(workVerify, 1))
	c.runJob(stopped, begin(workVerify, 0))
	lost := inState(begin(workVerify, 0), node.Verifying)
	if err := w.store.Write(t.Context(), func(tx *store.Tx) error { return tx.DropLeases("conductor-1") }); err != nil {
		t.Fatal(err)
	}
	c.runJob(t.Context(), lost)
	c.runJob(t.Context(), job{Work: &store.Work{Kind: workVerify, NodeID: 1 << 40}})

	want := []string{"verify done", "nosuch failed", "verify postponed", "verify failed", "verify stopped", "verify lost", "verify dropped"}
	if diff := cmp.Diff(want, ear.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func TestLogTellsWhatWasAskedForAndWhatBecameOfIt(t *testing.T) {
	var out strings.Builder
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	w.log = slog.New(slog.NewTextHandler(&out, nil))
	for verb, state := range map[string]node.State{"manage": node.Enroll, "inspect": node.Manageable} {
		n := w.fake(state, map[string]any{"fake_inspect_error": "lens cap"})
		w.send(n, verb, func(r *node.VerbRequest) { r.User = "ann" })
		j, _ := w.queue.pop()
		w.runJob(t.Context(), j)
	}
	for _, want := range []string{
		`level=INFO msg="Verb accepted" node=`, "verb=manage state=verifying user=ann", `level=INFO msg="Work done" node=`, "work=verify state=manageable",
		`level=WARN msg="Work failed for good" node=`, `work=look state="inspect failed" err="Failed to inspect node`, "lens cap",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %s:\n%s", want, out.String())
		}
	}
}

func TestLogTellsWhichMachinesWereEnrolled(t *testing.T) {
	var out strings.Builder
	w := emptyWorld(t)
	w.Conductor = w.idle("conductor-1")
	w.log = slog.New(slog.NewTextHandler(&out, nil))
	answer, err := send(t, w.Conductor, unknown(1))
	if err != nil {
		t.Fatal(err)
	}
	if want := `level=INFO msg="Enrolled an unknown machine" node=` + answer.Node.UUID + " source="; !strings.Contains(out.String(), want) {
		t.Errorf("log = %q, want %s", out.String(), want)
	}
}

func TestObserverHearsOfRequestsThatWaited(t *testing.T) {
	var ear listener
	c := emptyWorld(t).idle("conductor-1", func(cfg *Config) { cfg.Observer = &ear; cfg.LockWait = 30 * time.Millisecond })
	locked := 0
	for _, times := range []int{0, 1, 1000} {
		locked = times
		_ = c.retryLocked(t.Context(), func() error {
			if locked--; locked >= 0 {
				return &node.LockedError{}
			}
			return nil
		})
	}
	if diff := cmp.Diff([]string{"waited true", "waited false"}, ear.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
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

func TestObserverHearsOfPosts(t *testing.T) {
	var ear listener
	c := emptyWorld(t).idle("conductor-1", func(cfg *Config) { cfg.Observer = &ear })
	if _, err := c.ContinueInspection(t.Context(), node.InspectionPost{Body: []byte("{"), Version: 84}); err == nil {
		t.Fatal("half an object was accepted")
	}
	if diff := cmp.Diff([]string{"post invalid"}, ear.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
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
