package fairqueue_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ingot-metal/ingot/internal/fairqueue"
)

func TestASourceNeverHoldsMoreThanRemainsFree(t *testing.T) {
	q := fairqueue.New[string](8, 100)
	var leave []func()
	take := func(source string) int {
		n := 0
		for {
			l, ok := q.TryEnter(source)
			if !ok {
				return n
			}
			leave = append(leave, l)
			n++
		}
	}
	for _, step := range []struct {
		source string
		want   int
	}{{"first", 4}, {"second", 2}, {"third", 1}, {"fourth", 1}, {"fifth", 0}} {
		if got := take(step.source); got != step.want {
			t.Errorf("%s source got %d slots, want %d", step.source, got, step.want)
		}
	}
	for _, l := range leave {
		l()
		l() // a second call changes nothing
	}
	if got := take("later"); got != 4 {
		t.Errorf("after all have left, a source got %d slots, want 4", got)
	}
}

func TestWaitingSourcesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](2, 100)
		first, _ := q.TryEnter("first")
		second, ok := q.TryEnter("second")
		if !ok {
			t.Fatal("two sources found no slot each")
		}
		defer second()
		var order []string
		next := make(chan func(), 1) // what makes the last one that was let in leave
		waiting := []string{"flood", "flood", "flood", "rack 1", "rack 1", "rack 2"}
		for _, source := range waiting {
			go func() {
				leave, err := q.Enter(t.Context(), source)
				if err != nil {
					t.Errorf("%s: %v", source, err)
					return
				}
				order = append(order, source) // one at a time is in
				next <- leave
			}()
			synctest.Wait()
		}
		leave := first
		for range waiting {
			leave()
			leave = <-next
		}
		leave()
		want := []string{"flood", "rack 1", "rack 2", "flood", "rack 1", "flood"}
		if !slices.Equal(order, want) {
			t.Errorf("let in: %v, want %v", order, want)
		}
	})
}

func TestAFullQueueSendsCallersOfTheLongestSourceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](2, 3)
		hold := map[string]func(){}
		for _, source := range []string{"flood", "other"} {
			leave, err := q.Enter(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			hold[source] = leave
		}
		outcomes := make(chan error, 10)
		enter := func(source string) {
			go func() {
				leave, err := q.Enter(t.Context(), source)
				if err == nil {
					defer leave()
				}
				outcomes <- err
			}()
			synctest.Wait()
		}
		for range 3 {
			enter("flood")
		}
		if !q.Full("flood") || q.Full("rack 1") {
			t.Errorf("full for the flood: %v, for a new source: %v; want true and false", q.Full("flood"), q.Full("rack 1"))
		}
		enter("flood")
		if err := <-outcomes; !errors.Is(err, fairqueue.ErrFull) {
			t.Errorf("one caller too many got %v, want ErrFull", err)
		}
		enter("rack 1") // in place of one of the flood
		if err := <-outcomes; !errors.Is(err, fairqueue.ErrFull) {
			t.Errorf("the flood's last caller got %v, want ErrFull", err)
		}
		hold["flood"]()
		hold["other"]()
		synctest.Wait()
		for range 3 {
			if err := <-outcomes; err != nil {
				t.Errorf("a waiting caller got %v", err)
			}
		}
	})
}

func TestACallerThatGivesUpLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairqueue.New[string](2, 1)
		first, _ := q.TryEnter("a")
		second, _ := q.TryEnter("b")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := q.Enter(ctx, "c")
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller whose context ended got %v", err)
		}
		if q.Full("d") {
			t.Error("the place of a caller that gave up is still taken")
		}
		first()
		second()
		if leave, ok := q.TryEnter("d"); !ok {
			t.Error("a slot was lost")
		} else {
			leave()
		}
	})
}
