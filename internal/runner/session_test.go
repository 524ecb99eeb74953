package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// TestCallWhoseTimeIsOverIsNotMade has the commits before a call take longer than the call may.
func TestCallWhoseTimeIsOverIsNotMade(t *testing.T) {
	for name, deadline := range map[string]time.Time{"over": time.Now().Add(-time.Second), "none": {}} {
		called := false
		op := &Operation{Change: func(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
			called = true
			return driver.Outcome{}, nil
		}}
		s := &session{r: &Runner{}, j: &Job{}, deadline: deadline, attempt: driver.Refused}
		err := s.turn(t.Context(), op, &node.Node{})
		if !errors.Is(err, context.DeadlineExceeded) || called || s.attempt != driver.Refused {
			t.Errorf("deadline %s: %v, called %v, attempt %v; want no call, and what is known of earlier ones", name, err, called, s.attempt)
		}
	}
}

func TestCallIsNotMadeAfterItsLeaseIsLost(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(node.ErrLeaseLost)
	s := &session{r: &Runner{}, j: &Job{}, deadline: time.Now().Add(time.Minute)}
	if err := s.turn(ctx, &Operation{}, &node.Node{}); !errors.Is(err, node.ErrLeaseLost) {
		t.Errorf("got %v, want %v", err, node.ErrLeaseLost)
	}
}

func TestEpochThatWasGrantedTwiceIsAnotherLease(t *testing.T) {
	mine := node.Lease{Epoch: 7, Holder: "conductor-1"}
	for name, test := range map[string]struct {
		lease node.Lease
		want  bool
	}{
		"mine":      {mine, true},
		"renewed":   {node.Lease{Epoch: 7, Holder: "conductor-1", ExpiresAt: time.Now()}, true},
		"later one": {node.Lease{Epoch: 8, Holder: "conductor-1"}, false},
		"another's": {node.Lease{Epoch: 7, Holder: "conductor-2"}, false},
	} {
		if got := holds(&node.Node{Lease: test.lease}, mine); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
