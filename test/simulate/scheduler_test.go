package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/runner"
)

// verdict is what the scheduler decides about a commit or a call.
type verdict string

const (
	proceed             verdict = "goes well"
	crashBefore         verdict = "crash before"
	crashAfter          verdict = "crash after"
	databaseUnavailable verdict = "database away"
	rolledBack          verdict = "rolled back"
	answerLost          verdict = "answer lost"
	requestLost         verdict = "request lost"
	refused             verdict = "refused"
	hangs               verdict = "hangs"
	lies                verdict = "lies"
)

// Kinds of points at which the scheduler decides.
const (
	atCommit = "commit"
	atEffect = "effect"
	atRead   = "read"
	// atPost is a request of an agent to the engine.
	atPost = "post"
	// atBMCRead is one of the many readings of which a call of a BMC consists. Few of them
	// become an atRead; at the others nothing is decided.
	atBMCRead = "BMC read"
	// atYield is a point at which nothing is decided. It keeps goroutines from running
	// concurrently, so that the same seed always leads to the same run.
	atYield = "yield"
)

// readingsDecided is how many readings of a BMC the scheduler decides about, in hundredths.
const readingsDecided = 5

// odds are the verdicts of each kind of point and how often each is chosen, in
// thousandths.
var odds = map[string][]struct {
	verdict verdict
	weight  int
}{
	atCommit: {{crashBefore, 15}, {crashAfter, 15}, {databaseUnavailable, 15}, {rolledBack, 15}, {answerLost, 15}},
	atEffect: {{crashBefore, 20}, {crashAfter, 30}, {refused, 60}, {answerLost, 40}, {hangs, 25}, {lies, 20}, {requestLost, 20}},
	atRead:   {{crashBefore, 5}, {refused, 50}, {hangs, 20}},
	atPost:   {{answerLost, 40}, {requestLost, 40}},

	rare + atCommit: {{crashBefore, 120}, {crashAfter, 120}, {databaseUnavailable, 40}, {rolledBack, 40}, {answerLost, 60}},
	rare + atEffect: {{crashBefore, 250}, {crashAfter, 220}, {refused, 50}, {answerLost, 60}, {hangs, 30}, {lies, 20}, {requestLost, 40}},
}

// rare begins the kinds of points with odds of their own, see point.
const rare = "rare "

// point is a goroutine that waits for the scheduler.
type point struct {
	replica *replica // whose goroutine it is; nil for that of a machine
	kind    string
	name    string
	call    string // the request to a machine
	rare    bool   // few runs come here, and a fault here matters more than others
	info    runner.Info
	verdict chan verdict
}

func (p *point) String() string {
	if p.replica == nil {
		return p.name
	}
	return p.replica.name + " " + p.kind + " " + p.name
}

func comparePoints(a, b *point) int {
	return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.info.Node, b.info.Node))
}

// scheduler decides what happens next. Everything it does follows from its seed.
type scheduler struct {
	mu       sync.Mutex
	rng      *rand.Rand
	pending  []*point
	ended    bool // no faults any more, and no point waits
	began    time.Time
	trace    []string
	covered  coverage
	failures []time.Time // when a process or the database failed, in order
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{rng: rand.New(rand.NewPCG(seed, 0x1465)), began: time.Now(), covered: coverage{}}
}

// waitAt waits for the scheduler's verdict. Like a paused process, it does not stop waiting when
// ctx ends.
func (s *scheduler) waitAt(ctx context.Context, r *replica, kind, name string) verdict {
	return s.wait(ctx, &point{replica: r, kind: kind, name: name})
}

// wait is waitAt for a point that exists.
func (s *scheduler) wait(ctx context.Context, p *point) verdict {
	p.info, p.verdict = runner.InfoOf(ctx), make(chan verdict, 1)
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return proceed
	}
	s.pending = append(s.pending, p)
	s.mu.Unlock()
	return <-p.verdict
}

// note writes a line of the trace.
func (s *scheduler) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.trace = append(s.trace, fmt.Sprintf("%9.3fs ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

// waiting returns the points that need a decision, in an order that does not depend on which came
// first. Before that, it lets all others run on, one after the other.
func (s *scheduler) waiting() []*point {
	for {
		synctest.Wait()
		s.mu.Lock()
		slices.SortStableFunc(s.pending, comparePoints)
		i := slices.IndexFunc(s.pending, func(p *point) bool { return p.kind == atYield || p.kind == atBMCRead })
		if i < 0 {
			defer s.mu.Unlock()
			return slices.Clone(s.pending)
		}
		p := s.pending[i]
		if p.kind == atBMCRead && s.rng.IntN(100) < readingsDecided {
			p.kind = atRead
			s.mu.Unlock()
			continue
		}
		s.pending = slices.Delete(s.pending, i, i+1)
		s.mu.Unlock()
		p.verdict <- proceed
	}
}

// release gives a point its verdict.
func (s *scheduler) release(p *point, v verdict) {
	s.note("%s: %s", p, v)
	s.mu.Lock()
	s.pending = slices.DeleteFunc(s.pending, func(o *point) bool { return o == p })
	if v == crashBefore || v == crashAfter || v == databaseUnavailable || v == rolledBack || v == answerLost {
		s.failures = append(s.failures, time.Now())
	}
	s.covered[fmt.Sprintf("%s | %s", p.coverageRow(), v)]++
	s.mu.Unlock()
	p.verdict <- v
}

// releaseAll frees the points of a replica that is dead.
func (s *scheduler) releaseAll(r *replica) {
	for _, p := range s.waiting() {
		if p.replica == r {
			s.release(p, crashBefore)
			synctest.Wait()
		}
	}
}

// end ends the scheduling: nothing goes wrong any more.
func (s *scheduler) end() {
	s.mu.Lock()
	pending := s.pending
	s.ended, s.pending = true, nil
	s.mu.Unlock()
	for _, p := range pending {
		p.verdict <- proceed
	}
}

// noteFailure notes that a process has ended before its work was stored.
func (s *scheduler) noteFailure() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, time.Now())
}

// failedWithin reports whether a process or the database has failed in a period, including its
// ends.
func (s *scheduler) failedWithin(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return anyWithin(s.failures, from, to)
}

// drawVerdict draws a verdict for a point.
func (s *scheduler) drawVerdict(p *point) verdict {
	at, kind := s.rng.IntN(1000), p.kind
	if p.rare {
		kind = rare + kind
	}
	for _, o := range odds[kind] {
		if at -= o.weight; at < 0 {
			return o.verdict
		}
	}
	return proceed
}

// anyWithin reports whether one of several moments lies in a period, including its ends.
func anyWithin(moments []time.Time, from, to time.Time) bool {
	return slices.ContainsFunc(moments, func(at time.Time) bool { return !at.Before(from) && !at.After(to) })
}

func (s *scheduler) chance(percent int) bool { return s.rng.IntN(100) < percent }

// pick returns one of several, drawn.
func pick[T any](s *scheduler, all []T) T { return all[s.rng.IntN(len(all))] }
