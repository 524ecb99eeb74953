package driver

import (
	"context"
	"time"
)

// CheckDeadline returns an error when ctx has ended or its deadline is over. Nothing may be sent to a
// machine then, because others may have it. The context alone does not tell in time:
//
//   - A process that was stopped for a while may go on before the timer that ends the context fires.
//   - While the process's machine is suspended, the monotonic clock of timers stands still.
func CheckDeadline(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && Passed(deadline, time.Now()) {
		return context.DeadlineExceeded
	}
	return nil
}

// Passed reports whether a deadline is over by the monotonic clock or by the wall clock. The zero
// time means no deadline.
func Passed(deadline, now time.Time) bool {
	return !deadline.IsZero() && over(deadline.Sub(now), deadline.Round(0).Sub(now.Round(0)))
}

// over reports whether no time is left by either clock.
func over(monotonic, wall time.Duration) bool { return monotonic <= 0 || wall <= 0 }
