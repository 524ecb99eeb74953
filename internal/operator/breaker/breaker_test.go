package breaker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// fakeEngine answers as it is told. It has every node but noNode.
type fakeEngine struct {
	provisioner.Engine

	mu    sync.Mutex
	away  error
	calls []time.Duration // when it was asked for noNode, since its start
	begun time.Time
	reads int
}

func (f *fakeEngine) Node(_ context.Context, id string) (provisioner.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if id == noNode {
		f.calls = append(f.calls, time.Since(f.begun))
	}
	switch {
	case f.away != nil:
		return provisioner.Node{}, f.away
	case id == noNode:
		return provisioner.Node{}, provisioner.ErrNotFound
	default:
		return provisioner.Node{ID: id}, nil
	}
}

// Inventory hangs for the node "hangs" and fails for the node "broken".
func (f *fakeEngine) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	switch id {
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	case "broken":
		return nil, fmt.Errorf("%w: internal server error", provisioner.ErrUnreachable)
	default:
		return &provisioner.Inventory{}, nil
	}
}

func (f *fakeEngine) Nodes(context.Context, provisioner.ListOptions) ([]provisioner.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, f.away
}

// Version and CanService are answered from memory.
func (f *fakeEngine) Version(context.Context) (string, error) { return "1.95", nil }

func (f *fakeEngine) CanService(context.Context) (bool, error) { return true, nil }

func (f *fakeEngine) set(away error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakeEngine) readCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *fakeEngine) asked() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

var errAway = fmt.Errorf("%w: connection refused", provisioner.ErrUnreachable)

// start returns an engine that runs until the end of the test, and the engine behind it.
func start(t *testing.T) (*Engine, *fakeEngine) {
	t.Helper()
	behind := &fakeEngine{begun: time.Now()}
	e := New(behind, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error = %v, want none", err)
		}
	})
	return e, behind
}

func TestCallsToAnEngineThatIsAwayAreRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		behind.set(errAway)
		for range 3 {
			_, _ = e.Node(t.Context(), "n1")
		}
		before := behind.readCount()
		for range 100 {
			if _, err := e.Node(t.Context(), "n2"); !errors.Is(err, errAway) {
				t.Fatalf("error = %v, want the last one of the engine", err)
			}
		}
		if err := e.Manage(t.Context(), "n3"); !errors.Is(err, errAway) {
			t.Errorf("error = %v, want requests for changes refused, too", err)
		}
		if got := behind.readCount() - before; got != 0 {
			t.Errorf("the engine was called %d times while it was away", got)
		}
	})
}

func TestEngineThatIsAwayIsAskedLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		behind.set(errAway)
		for range 3 {
			_, _ = e.Node(t.Context(), "n1")
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		all := behind.asked()
		last, calls := all[0], all[1:] // the first call found that the engine is away
		for i, at := range calls {
			full := min(time.Second<<i, time.Minute)
			if pause := at - last; pause < full/2 || pause > full {
				t.Errorf("pause %d took %s, want %s to %s", i, pause, full/2, full)
			}
			last = at
		}
		if len(calls) < 10 {
			t.Errorf("the engine was asked %d times in 10 minutes, want at least once a minute", len(calls))
		}
	})
}

func TestRecoveryTellsWhoseCallsWereRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		var told []string
		e.OnRecovery(func(ids []string) { told = append(told, ids...) })
		behind.set(errAway)
		for _, id := range []string{"n1", "n2", "n3", "n4"} {
			_, _ = e.Node(t.Context(), id)
		}
		_, _ = e.Find(t.Context(), provisioner.Identity{Name: "metal~web"})
		_, _ = e.Nodes(t.Context(), provisioner.ListOptions{})
		behind.set(nil)
		<-time.After(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "n1", "n2", "n3", "n4"}, told); diff != "" {
			t.Errorf("told IDs differ (-want +got):\n%s", diff)
		}
		if _, err := e.Node(t.Context(), "n5"); err != nil {
			t.Errorf("error = %v, want the engine called again", err)
		}
	})
}

func TestRecoveryTellsThoseWhoNeededAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		var told []string
		e.OnRecovery(func(ids []string) { told = append(told, ids...) })
		behind.set(errAway)
		for range 4 {
			_, _ = e.Nodes(t.Context(), provisioner.ListOptions{})
		}
		behind.set(nil)
		<-time.After(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{""}, told); diff != "" {
			t.Errorf("told IDs differ (-want +got):\n%s", diff)
		}
	})
}

func TestNodeThatTheEngineHangsOnStopsNoOtherCalls(t *testing.T) {
	for _, id := range []string{"hangs", "broken"} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, _ := start(t)
				for range 10 {
					if _, err := e.Inventory(t.Context(), id); !errors.Is(err, provisioner.ErrUnreachable) {
						t.Fatalf("error = %v, want no answer", err)
					}
				}
				if _, err := e.Inventory(t.Context(), "n1"); err != nil {
					t.Errorf("error = %v, want the inventory of another node", err)
				}
			})
		})
	}
}

func TestCallEndsWhenTheEngineDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := start(t)
		begun := time.Now()
		_, err := e.Inventory(t.Context(), "hangs")
		if took := time.Since(begun); took != 15*time.Second {
			t.Errorf("the call took %s, want 15 s", took)
		}
		if want := "engine is unreachable: no answer within 15s"; err == nil || err.Error() != want {
			t.Errorf("error = %v, want %q", err, want)
		}
	})
}

func TestCallerThatGivesUpSaysNothingAboutTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := e.Inventory(ctx, "hangs"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want that of the caller's deadline", err)
			}
			cancel()
		}
		if got := behind.readCount(); got != 0 {
			t.Errorf("the engine was asked %d times whether it is there", got)
		}
	})
}

func TestAnswersInBetweenKeepCallsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, behind := start(t)
		for range 10 {
			_, _ = e.Inventory(t.Context(), "broken")
			_, _ = e.Inventory(t.Context(), "broken")
			_, _ = e.Inventory(t.Context(), "n1")
		}
		if got := behind.readCount(); got != 0 {
			t.Errorf("the engine was asked %d times whether it is there", got)
		}
	})
}

func TestWhatIsRememberedOfAnEngineDoesNotCountAsItsAnswer(t *testing.T) {
	for name, remembered := range map[string]func(context.Context, *Engine) error{
		"its version":            func(ctx context.Context, e *Engine) error { _, err := e.Version(ctx); return err },
		"whether it can service": func(ctx context.Context, e *Engine) error { _, err := e.CanService(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, behind := start(t)
				var told []string
				e.OnRecovery(func(ids []string) { told = append(told, ids...) })
				behind.set(errAway)
				for range 3 {
					_, _ = e.Node(t.Context(), "n1")
					_, _ = e.Node(t.Context(), "n1")
					_ = remembered(t.Context(), e)
				}
				before := behind.readCount()
				if _, err := e.Node(t.Context(), "n1"); !errors.Is(err, errAway) || behind.readCount() != before {
					t.Errorf("error = %v after %d calls, want the call refused", err, behind.readCount()-before)
				}
				if err := remembered(t.Context(), e); !errors.Is(err, errAway) {
					t.Errorf("error = %v, want also this refused", err)
				}
				behind.set(nil)
				<-time.After(time.Second)
				synctest.Wait()
				if !slices.Contains(told, "n1") {
					t.Errorf("told IDs %q lack n1", told)
				}
			})
		})
	}
}

func TestEveryMethodIsRefusedWhileTheEngineIsAway(t *testing.T) {
	e := New(nil, Options{}) // a call that is passed on would panic
	e.away = errAway
	value := reflect.ValueOf(e)
	methods := reflect.TypeFor[provisioner.Engine]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		t.Run(method.Name, func(t *testing.T) {
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for in := 1; in < method.Type.NumIn(); in++ {
				args = append(args, reflect.Zero(method.Type.In(in)))
			}
			results := value.MethodByName(method.Name).Call(args)
			if err, _ := results[len(results)-1].Interface().(error); !errors.Is(err, errAway) {
				t.Errorf("error = %v, want the call refused", err)
			}
		})
	}
}
