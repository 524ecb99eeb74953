package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestListeningBeginsAnewAfterABreak(t *testing.T) {
	const longest = 30 * time.Second
	later := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		happens func(*listening)
		want    time.Time
	}{
		"nothing":           {func(l *listening) { l.tick(noon.Add(longest), longest) }, noon},
		"database was away": {func(l *listening) { l.interrupt() }, later},
		"process was suspended": {func(l *listening) {
			l.tick(noon.Add(longest+time.Second), longest)
			l.tick(noon.Add(longest+2*time.Second), longest)
		}, later},
	} {
		t.Run(name, func(t *testing.T) {
			var l listening
			l.begin(noon)
			l.tick(noon, longest)
			tc.happens(&l)
			l.resume(later)
			l.resume(later.Add(time.Minute))
			if got := l.begun(); !got.Equal(tc.want) {
				t.Errorf("since %s, want %s", got, tc.want)
			}
		})
	}
}

func TestProcessRecoversForAWhileAfterABreak(t *testing.T) {
	const while = 15 * time.Second
	var l listening
	want := func(now time.Time, want bool) {
		t.Helper()
		if got := l.recovering(now, while); got != want {
			t.Errorf("recovering %v at %s, want %v", got, now, want)
		}
	}
	l.begin(noon)
	want(noon, false) // nobody waits for a process that starts
	l.interrupt()
	want(noon.Add(time.Hour), true)
	l.resume(noon.Add(time.Hour))
	want(noon.Add(time.Hour+while-1), true)
	want(noon.Add(time.Hour+while), false)
}

func TestAbsencesAreLeftOutOnlySoOften(t *testing.T) {
	cp := checkpoint{Operation: Ref{Name: "a"}, Since: noon}
	for i := range maxAbsences {
		due := noon.Add(time.Duration(i) * time.Hour)
		if cp = cp.resumed(due, due.Add(time.Hour)); !cp.Since.Equal(due.Add(time.Hour)) {
			t.Fatalf("since %s after %d absences", cp.Since, i+1)
		}
	}
	if again := cp.resumed(noon, noon.Add(24*time.Hour)); again != cp {
		t.Errorf("one more absence is left out: %+v", again)
	}
}

// TestQueuedWorkLearnsThatItsLeaseIsLost loses the lease of a queued job. Nothing else would
// tell the job before its first call.
func TestQueuedWorkLearnsThatItsLeaseIsLost(t *testing.T) {
	l := newLeases()
	lease := node.Lease{Epoch: 7}
	l.keepRenewed(lease)
	l.lost([]int64{7})
	ctx, cancel := context.WithCancelCause(t.Context())
	l.watch(lease, cancel)
	if !errors.Is(context.Cause(ctx), node.ErrLeaseLost) {
		t.Errorf("cause %v, want that the lease is lost", context.Cause(ctx))
	}
}
