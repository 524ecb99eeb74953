package keylimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestUsersOfOneKeyWaitForEachOtherAndNotForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(2)
		first, second, other := acquire(t, l, "a"), acquire(t, l, "a"), acquire(t, l, "b")
		entered := make(chan func())
		go func() { entered <- acquire(t, l, "a") }()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("a third user came in beside two")
		default:
		}
		first()
		for _, release := range []func(){<-entered, second, other} {
			release()
		}
		if len(l.keys) != 0 {
			t.Errorf("%d keys are remembered that nobody uses", len(l.keys))
		}
	})
}

func TestUserThatGivesUpLeavesNothing(t *testing.T) {
	l := New(1)
	release := acquire(t, l, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
	release()
	acquire(t, l, "a")()
	if len(l.keys) != 0 {
		t.Errorf("%d keys are remembered that nobody uses", len(l.keys))
	}
}

func acquire(t *testing.T, l *Limit, name string) (release func()) {
	t.Helper()
	release, err := l.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return release
}
