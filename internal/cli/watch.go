package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// maxLookFailures is how many looks in a row may fail before waiting ends: an
// engine that restarts is back by then.
const maxLookFailures = 30

// firstPause is the time before the second look at a node; it doubles from
// look to look.
const firstPause = 50 * time.Millisecond

// errWaitedEnough is the cause of a context that ended by --wait=SECONDS.
var errWaitedEnough = errors.New("waited long enough")

// bounded is ctx with the time that the user gave for waiting.
func (w Wait) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, w.Timeout, errWaitedEnough)
}

// A look is what one look at a thing shows.
type look struct {
	state string // to report when it changed
	done  bool
	err   error // the work has ended otherwise
}

// watch looks at something until its work has ended.
type watch struct {
	// label names it in reports, kind and show in the sentence at the end.
	kind, label string
	// look asks the engine once.
	look func(ctx context.Context) (look, error)
	// interval is the longest time between two looks, 0 for one second. The
	// first looks come sooner, because most work is short.
	interval time.Duration
}

// run looks until the work has ended and reports every state it sees on the
// way.
func (w watch) run(ctx context.Context, to Streams) error {
	longest := cmp.Or(w.interval, time.Second)
	pause := min(firstPause, longest)
	next := time.NewTimer(pause)
	defer next.Stop()
	seen, failures := "", 0
	for {
		now, err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return w.end(ctx, seen)
		case err != nil && (!baremetal.Retryable(err) || failures >= maxLookFailures):
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

// end is the error of waiting that ended before the work.
func (w watch) end(ctx context.Context, seen string) error {
	show := fmt.Sprintf("ingot %s show %s", w.kind, w.label)
	switch {
	case !errors.Is(context.Cause(ctx), errWaitedEnough):
		return &AdvisedError{Err: ctx.Err(), Advice: fmt.Sprintf("The work on %s %s goes on, look again with: %s.", w.kind, w.label, show)}
	case seen == "":
		return &AdvisedError{Err: fmt.Errorf("no time was left to look at %s %s", w.kind, w.label), Advice: "Look with: " + show + ".", Code: ExitStillGoing}
	default:
		err := fmt.Errorf("%s %s is still in %q", w.kind, w.label, seen)
		return &AdvisedError{Err: err, Advice: "The work goes on, look again with: " + show + ".", Code: ExitStillGoing}
	}
}
