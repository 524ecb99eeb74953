//go:build fault

package fault_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

const (
	// leastSteps is how many different steps must be hit.
	leastSteps = 25
	// killsPerLife is how often an engine is killed in the life of one machine.
	killsPerLife = 14
	// livesPerRound is how many lives there are at the same time, two of each shape. Most of their
	// time they wait.
	livesPerRound = 2 * len(shapes)
)

// hits is where engines were killed.
type hits struct {
	chosen map[string]int // how often names of commits were chosen

	mu      sync.Mutex
	lines   []string
	names   map[string]bool   // of commits
	known   map[string][]step // lives without faults, by shape
	unknown int               // verbs that ended with the sentence that the outcome is unknown
}

// add notes where the engine of a life was killed.
func (h *hits) add(l *life, round int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unknown += len(l.unknown)
	for i, c := range l.engine.all() {
		if c.Killed == "" {
			continue
		}
		h.names[c.Name] = true
		h.lines = append(h.lines, fmt.Sprintf("round %d %-18s %-6s commit %3d  %s", round, l.shape.name, c.Killed, i+1, c.Name))
	}
}

// TestEveryStepSurvivesTheDeathOfTheEngine leads machines through their life while their engine
// is killed just before and just after commits that the seed chooses among those of a life
// without faults.
func TestEveryStepSurvivesTheDeathOfTheEngine(t *testing.T) {
	seed := cmp.Or(*seed, uint64(time.Now().UnixNano())%1_000_000)
	fmt.Printf("seed %d; to repeat the choices: make fault SEED=%d SECONDS=%d RUN=%s\n", seed, seed, *seconds, t.Name())
	h := &hits{chosen: map[string]int{}, names: map[string]bool{}, known: map[string][]step{}}
	t.Run("undisturbed", func(t *testing.T) {
		for _, s := range shapes {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				l := startLife(t, s, nil)
				l.live()
				h.learn(l)
			})
		}
	})
	if t.Failed() {
		return
	}
	end, took := time.Now().Add(time.Duration(*seconds)*time.Second), time.Duration(0)
	for round := 1; round == 1 || time.Now().Add(took).Before(end) && !t.Failed(); round++ {
		began := time.Now()
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { h.round(t, seed, round) })
		took = time.Since(began)
	}
	h.print(t, seed)
}

// round leads machines of all shapes through their life at the same time.
func (h *hits) round(t *testing.T, seed uint64, round int) {
	t.Helper()
	for i := range livesPerRound {
		s := shapes[i%len(shapes)]
		r := rand.New(rand.NewPCG(seed, uint64(round*livesPerRound+i)))
		points := chooseKillPoints(r, h.known[s.name], h.chosen, killsPerLife)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := startLife(t, s, points)
			defer h.add(l, round)
			l.live()
		})
	}
}

// learn notes the commits of a life without faults.
func (h *hits) learn(l *life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	effects, _ := l.machine.effects(0)
	var harm []time.Time
	for _, e := range effects {
		if slices.Contains(harmful, e.Kind) || e.Kind == effect.AgentCommand && strings.Contains(e.Detail, ".execute_") {
			harm = append(harm, e.Time)
		}
	}
	h.known[l.shape.name] = stepsOf(l.engine.all(), harm)
	fmt.Printf("%s: %d commits without a fault, in %s\n", l.shape.name, len(h.known[l.shape.name]), time.Since(l.began).Round(time.Second))
}

// print tells what was hit and what was not.
func (h *hits) print(t *testing.T, seed uint64) {
	t.Helper()
	for _, line := range h.lines {
		fmt.Println(line)
	}
	missed := map[string]bool{}
	for _, steps := range h.known {
		for _, s := range steps {
			if !h.names[s.name] {
				missed[s.name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		fmt.Println("never hit:", name)
	}
	fmt.Printf("seed %d: engines were killed %d times at %d different steps, %d were never hit; %d requests ended with an outcome that is unknown\n",
		seed, len(h.lines), len(h.names), len(missed), h.unknown)
	if len(h.names) < leastSteps {
		t.Errorf("%d different steps were hit, want at least %d", len(h.names), leastSteps)
	}
}
