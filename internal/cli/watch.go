package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// maxPollFailures is how many polls in a row may fail before the wait ends. That is enough for an
// engine to restart.
const maxPollFailures = 30

// firstPause is the time between the first two polls. It doubles from poll to poll.
const firstPause = 50 * time.Millisecond

// errWaitedEnough is the cause of a context that ended because the timeout of --wait is over.
var errWaitedEnough = errors.New("waited long enough")

// bounded returns ctx with the timeout of --wait.
func (w Wait) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, w.Timeout, errWaitedEnough)
}

// observation is the outcome of one poll.
type observation struct {
	state string // reported when it has changed
	done  bool
	err   error // why the work has failed
}

// watch polls an object until its work has ended.
type watch struct {
	// label names the object in progress lines. kind and label name it in the final error.
	kind, label string
	// poll asks the engine once.
	poll func(ctx context.Context) (observation, error)
	// interval is the longest time between two polls; 0 means one second. The first polls are
	// closer together, because most work is short.
	interval time.Duration
}

// run polls until the work has ended and reports every state in between.
func (w watch) run(ctx context.Context, to Streams) error {
	longest := cmp.Or(w.interval, time.Second)
	pause := min(firstPause, longest)
	next := time.NewTimer(pause)
	defer next.Stop()
	seen, failures := "", 0
	for {
		now, err := w.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return w.end(ctx, seen)
		case err != nil && (!ironic.Retryable(err) || failures >= maxPollFailures):
			return err
		case err != nil:
			failures++
		default:
			failures = 0
			if now.state != seen {
				seen = now.state
				fmt.Fprintf(to.Err, "%s: %s\n", printable(w.label), printable(seen))
			}
			if now.done || now.err != nil {
				return now.err
			}
		}
		select {
		case <-ctx.Done():
			return w.end(ctx, seen)
		case <-next.C:
			pause = min(2*pause, longest)
			next.Reset(pause)
		}
	}
}

// end returns the error of a wait that ended before the work did.
func (w watch) end(ctx context.Context, seen string) error {
	show := fmt.Sprintf("ingot %s show %s", w.kind, w.label)
	switch {
	case !errors.Is(context.Cause(ctx), errWaitedEnough):
		return &AdvisedError{Err: ctx.Err(), Advice: fmt.Sprintf("The work on %s %s continues; check it with: %s.", w.kind, w.label, show)}
	case seen == "":
		return &AdvisedError{Err: fmt.Errorf("no time was left to check %s %s", w.kind, w.label), Advice: "Check it with: " + show + ".", Code: ExitStillGoing}
	default:
		err := fmt.Errorf("%s %s is still in %q", w.kind, w.label, seen)
		return &AdvisedError{Err: err, Advice: "The work continues; check it with: " + show + ".", Code: ExitStillGoing}
	}
}
