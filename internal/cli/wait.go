package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/node"
)

// Wait is the value of --wait, which may have a time or none.
type Wait struct {
	// Asked tells whether to wait at all.
	Asked bool
	// Timeout bounds the waiting for all nodes together, 0 for no bound.
	Timeout time.Duration
}

// WaitForever is the value of --wait without a time.
const WaitForever = "forever"

// Set takes a number of seconds, a duration such as 5m, or [WaitForever].
func (w *Wait) Set(text string) error {
	w.Asked, w.Timeout = true, 0
	if text == WaitForever {
		return nil
	}
	timeout, err := time.ParseDuration(text)
	if seconds, notSeconds := strconv.ParseUint(text, 10, 32); notSeconds == nil {
		timeout, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || timeout <= 0 {
		return errors.New("it must be a number of seconds or a time such as 5m")
	}
	w.Timeout = timeout
	return nil
}

// String is the value as help texts show it.
func (w *Wait) String() string {
	switch {
	case !w.Asked:
		return ""
	case w.Timeout == 0:
		return WaitForever
	default:
		return w.Timeout.String()
	}
}

// Type names the kind of value in help texts.
func (w *Wait) Type() string { return "seconds" }

// maxLookFailures is how many looks in a row may fail before waiting ends: an
// engine that restarts is back by then.
const maxLookFailures = 30

// firstPause is the time before the second look at a node; it doubles from
// look to look.
const firstPause = 50 * time.Millisecond

// waitFields is all that waiting looks at.
var waitFields = []string{"uuid", "name", "provision_state", "target_provision_state", "last_error"}

// errWaitedEnough is the cause of a context that ended by --wait=SECONDS.
var errWaitedEnough = errors.New("waited long enough")

// destination is the state that ends a verb's work.
var destination = map[baremetal.Verb]node.State{
	baremetal.Manage:  node.Manageable,
	baremetal.Provide: node.Available,
}

// wait looks at the node until the verb's work has ended and reports every
// state it sees on the way.
func (p ProvisionNodes) wait(ctx context.Context, engine *baremetal.Client, ident string, to Streams) error {
	longest := cmp.Or(p.Interval, time.Second)
	pause := min(firstPause, longest)
	next := time.NewTimer(pause)
	defer next.Stop()
	seen, failures := "", 0
	for {
		n, err := engine.Node(ctx, ident, waitFields...)
		switch {
		case ctx.Err() != nil:
			return endOfWait(ctx, ident, seen)
		case err != nil && (!baremetal.Retryable(err) || failures >= maxLookFailures):
			return err
		case err != nil:
			failures++
		default:
			failures = 0
			if n.ProvisionState != seen {
				seen = n.ProvisionState
				fmt.Fprintf(to.Err, "%s: %s\n", printable(ident), printable(seen))
			}
			if done, err := arrived(destination[p.Verb], n); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return endOfWait(ctx, ident, seen)
		case <-next.C:
			pause = min(2*pause, longest)
			next.Reset(pause)
		}
	}
}

// arrived tells whether the work that leads to state want has ended well; an
// error means that it ended otherwise.
func arrived(want node.State, n baremetal.Node) (bool, error) {
	state := node.State(n.ProvisionState)
	switch {
	case state == want && n.TargetProvisionState == "":
		return true, nil
	case state.Class() == node.Held:
		return false, fmt.Errorf("node %s is in %s and goes on only after the verb unhold", n.Label(), state)
	case state.Class() == node.Failed, state.Known() && state.Class() == node.Stable && n.TargetProvisionState == "":
		reason := n.LastError
		if reason == "" {
			reason = "the engine gives no reason"
		}
		return false, fmt.Errorf("node %s did not become %s, it is in %s: %s", n.Label(), want, state, reason)
	}
	return false, nil
}

func endOfWait(ctx context.Context, ident, seen string) error {
	switch {
	case !errors.Is(context.Cause(ctx), errWaitedEnough):
		return ctx.Err()
	case seen == "":
		return fmt.Errorf("no time was left to look at node %s; look with: ingot node show %s", ident, ident)
	default:
		return fmt.Errorf("node %s is still in %q; the work goes on, look again with: ingot node show %s", ident, seen, ident)
	}
}
