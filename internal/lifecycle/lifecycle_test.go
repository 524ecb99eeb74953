package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/lifecycle"
)

// record notes the starts and stops of parts, in order.
type record struct{ events []string }

// part is one whose start and stop return the errors given.
func (r *record) part(name string, start, stop error) lifecycle.Part {
	return lifecycle.Part{
		Name:  name,
		Start: func(context.Context) error { r.events = append(r.events, "start "+name); return start },
		Stop:  func(context.Context) error { r.events = append(r.events, "stop "+name); return stop },
	}
}

func (r *record) want(t *testing.T, events ...string) {
	t.Helper()
	if diff := cmp.Diff(events, r.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPartsStopInReverseOrder(t *testing.T) {
	var r record
	var s lifecycle.Stack
	if err := s.Start(t.Context(), r.part("a", nil, nil), r.part("b", nil, nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), lifecycle.Part{Name: "without start and stop"}, r.part("c", nil, nil)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second stop finds nothing
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	r.want(t, "start a", "start b", "start c", "stop c", "stop b", "stop a")
}

func TestFailedStartStopsWhatWasStartedInReverseOrder(t *testing.T) {
	var r record
	var s lifecycle.Stack
	busy, full := errors.New("port is busy"), errors.New("disk is full")
	err := s.Start(t.Context(), r.part("a", nil, full), r.part("b", nil, nil), r.part("c", busy, nil), r.part("d", nil, nil))
	r.want(t, "start a", "start b", "start c", "stop b", "stop a")
	if !errors.Is(err, busy) || !errors.Is(err, full) || err.Error() != "port is busy\nstop a: disk is full" {
		t.Errorf("got %q, want the error of the start and that of the stop", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop after a failed start: %v", err)
	}
	r.want(t, "start a", "start b", "start c", "stop b", "stop a")
}

func TestWhatAFailedStartHasPushedIsStopped(t *testing.T) {
	var r record
	var s lifecycle.Stack
	half := errors.New("only half of it works")
	err := s.Start(t.Context(), r.part("a", nil, nil), lifecycle.Part{Name: "b", Start: func(context.Context) error {
		s.Push(r.part("first half", nil, nil))
		return half
	}})
	if !errors.Is(err, half) {
		t.Errorf("got %v", err)
	}
	r.want(t, "start a", "stop first half", "stop a")
}

func TestFailedStartStopsPartsAlthoughItsContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var s lifecycle.Stack
	var whileStopping error
	err := s.Start(ctx,
		lifecycle.Part{Name: "a", Stop: func(ctx context.Context) error { whileStopping = ctx.Err(); return nil }},
		lifecycle.Part{Name: "b", Start: func(ctx context.Context) error { cancel(); return ctx.Err() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the start was canceled", err)
	}
	if whileStopping != nil {
		t.Errorf("the first part was stopped with a context that had ended: %v", whileStopping)
	}
}

func TestEveryStopErrorIsReportedWithItsPart(t *testing.T) {
	var r record
	var s lifecycle.Stack
	if err := s.Start(t.Context(), r.part("a", nil, errors.New("one")), r.part("b", nil, nil), r.part("c", nil, errors.New("three"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err == nil || err.Error() != "stop c: three\nstop a: one" {
		t.Errorf("got %v", err)
	}
}

func TestStopThatHangsIsBoundedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r record
		s := lifecycle.Stack{StopTimeout: time.Minute}
		release := make(chan struct{})
		hang := func(context.Context) error { <-release; return nil }
		if err := s.Start(t.Context(), r.part("a", nil, nil), lifecycle.Part{Name: "pump", Stop: hang}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := s.Stop(t.Context())
		if took := time.Since(began); took != time.Minute+time.Second {
			t.Errorf("the stop took %s, want the timeout and a second", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "stop pump: still running") {
			t.Errorf("got %v, want the name of the part", err)
		}
		r.want(t, "start a", "stop a")
		close(release)
	})
}

func TestDeadlineOfTheCallerBoundsAllStopsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s lifecycle.Stack
		polite := func(ctx context.Context) error { <-ctx.Done(); return errors.New("two requests still run") }
		if err := s.Start(t.Context(), lifecycle.Part{Name: "a", Stop: polite}, lifecycle.Part{Name: "b", Stop: polite}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		err := s.Stop(ctx)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the stop took %s, want 5s", took)
		}
		if err == nil || err.Error() != "stop b: two requests still run\nstop a: two requests still run" {
			t.Errorf("got %v, want what each part says itself", err)
		}
	})
}
