package sim

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Report writes the progress of the machines to w until ctx ends or, if untilRunning is set, all
// machines run. It writes a line after a change, at most one per interval. It returns an error only
// if untilRunning is set and ctx ends before all machines run.
func (ms *Machines) Report(ctx context.Context, w io.Writer, interval time.Duration, untilRunning bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := ""
	for {
		s, changed := ms.observe()
		if line := s.String(); line != last {
			last = line
			_, _ = fmt.Fprintln(w, line) // progress is not worth failing for
		}
		if untilRunning && s.States[Running] == s.Machines {
			return nil
		}
		select {
		case <-ctx.Done():
			return ms.interrupted(ctx, untilRunning)
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return ms.interrupted(ctx, untilRunning)
		case <-changed:
		}
	}
}

func (ms *Machines) interrupted(ctx context.Context, untilRunning bool) error {
	if !untilRunning {
		return nil
	}
	return fmt.Errorf("wait for all machines to run (%s%s): %w", ms.Snapshot(), ms.firstFailure(), context.Cause(ctx))
}

// Summary is the final report: the states of the machines, why the first failed
// machine failed, and the answers of the engine.
func (ms *Machines) Summary() string {
	s := ms.Snapshot()
	return fmt.Sprintf("%s%s\n%s", s, ms.firstFailure(), s.AnswerTable())
}
