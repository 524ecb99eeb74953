package sim

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Report writes the progress of the fleet to w, one line whenever it changed
// and at most one per interval, until ctx ends or, if untilRunning is set, all
// machines run. It returns an error only for the machines that do not run when
// ctx ends although untilRunning is set.
func (f *Fleet) Report(ctx context.Context, w io.Writer, interval time.Duration, untilRunning bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		s, changed := f.observe()
		if line := s.String(); line != last {
			last = line
			_, _ = fmt.Fprintln(w, line) // progress is not worth failing for
		}
		if untilRunning && s.States[Running] == s.Machines {
			return nil
		}
		select {
		case <-ctx.Done():
			return f.interrupted(ctx, untilRunning)
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return f.interrupted(ctx, untilRunning)
		case <-changed:
		}
	}
}

func (f *Fleet) interrupted(ctx context.Context, untilRunning bool) error {
	if !untilRunning {
		return nil
	}
	return fmt.Errorf("wait for all machines to run (%s%s): %w", f.Snapshot(), f.firstFailure(), context.Cause(ctx))
}

// Summary is the closing report: where the machines are, why the first of the
// failed ones failed, and how the engine answered.
func (f *Fleet) Summary() string {
	s := f.Snapshot()
	return fmt.Sprintf("%s%s\n%s", s, f.firstFailure(), s.AnswerTable())
}
