//go:build fault

package fault_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// places are where operators write, and at which of these places one was killed. They are safe for
// concurrent use.
type places struct {
	mu     sync.Mutex
	known  []string       // names of writes
	times  map[string]int // how often they were made in the first life
	killed map[writePoint]bool
	kills  int
}

func newPlaces() *places { return &places{times: map[string]int{}, killed: map[writePoint]bool{}} }

// learn notes what the operators of a life wrote, and where they were killed.
func (p *places) learn(operators ...*writes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := len(p.known) == 0
	for _, w := range operators {
		for _, name := range w.written() {
			if !slices.Contains(p.known, name) {
				p.known = append(p.known, name)
			}
			if first {
				p.times[name]++
			}
		}
		for _, here := range w.killedAt() {
			p.killed[here] = true
			p.kills++
		}
	}
}

// open returns the places where no operator was killed.
func (p *places) open() (points []writePoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.known {
		for _, here := range pointsOf(name) {
			if !p.killed[here] {
				points = append(points, here)
			}
		}
	}
	return points
}

// hit counts the places where an operator was killed.
func (p *places) hit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.killed)
}

// share shares the open places among operators. The two places of a write go to different
// operators, because a write that an operator did not survive is not always made later. pass
// returns, for a write, how often the operator gets past it before it is killed there.
func (p *places) share(r *rand.Rand, operators int, pass func(name string) int) []kills {
	shares := make([]kills, operators)
	for i := range shares {
		shares[i] = kills{}
	}
	next := map[string]int{}
	for _, here := range p.open() {
		i, known := next[here.name]
		if !known {
			i = r.IntN(operators)
		}
		next[here.name] = (i + 1) % operators
		shares[i][here] = pass(here.name)
	}
	return shares
}

// isUseful reports whether another round is of use and ends in time. The last round began at
// began and raised the number of places that were hit from before to hit. The next one is taken to
// last as long.
func isUseful(began time.Time, before, hit, left int, end time.Time) bool {
	return hit > before && left > 0 && time.Now().Add(time.Since(began)).Before(end)
}

// report tells where operators were killed and where not, with a prefix in each line.
func (p *places) report(prefix string) {
	open := p.open()
	for _, name := range p.known {
		for _, here := range pointsOf(name) {
			what := "killed"
			if slices.Contains(open, here) {
				what = "never hit:"
			}
			fmt.Printf("%s%s %s\n", prefix, what, here)
		}
	}
}
