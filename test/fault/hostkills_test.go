//go:build fault

package fault_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/internal/controlplane"
)

const (
	// hostsPerShape is how many hosts with the same kind of machine live at the same time.
	hostsPerShape = 2
	// leastPlaces is how many different places of operators have to be hit.
	leastPlaces = 100
)

// hostKills is where the operators and engines of hosts were killed.
type hostKills struct {
	*hits // of engines

	mu     sync.Mutex
	known  map[string][]string            // names of writes in the lives so far, by shape
	killed map[string]map[writePoint]bool // by shape
	kills  int                            // of operators
}

// TestHostsSurviveTheDeathOfTheirOperatorAndTheirEngine leads hosts through their life while
// the operator is killed just before and just after each kind of write to the API server, and
// then while the engine is killed at commits that the seed chooses.
func TestHostsSurviveTheDeathOfTheirOperatorAndTheirEngine(t *testing.T) {
	seed := cmp.Or(*seed, uint64(time.Now().UnixNano())%1_000_000)
	fmt.Printf("seed %d; to repeat the choices: make fault SEED=%d SECONDS=%d RUN=%s\n", seed, seed, *seconds, t.Name())
	config := controlplane.StartForTest(t, controlplane.TestOptions{})
	k := &hostKills{
		hits:  &hits{names: map[string]bool{}, known: map[string][]step{}},
		known: map[string][]string{}, killed: map[string]map[writePoint]bool{},
	}
	t.Run("hosts", func(t *testing.T) {
		for i, s := range hostShapes {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				k.killAll(t, config, s, seed+uint64(i)<<32)
			})
		}
	})
	k.print(t, seed)
}

// killAll kills the operators and engines of hosts with a kind of machine.
func (k *hostKills) killAll(t *testing.T, config *rest.Config, s shape, seed uint64) {
	t.Helper()
	// The rest of the time is for engines.
	end := time.Now().Add(time.Duration(*seconds) * time.Second * 2 / 3)
	round(t, "undisturbed", 1, func(t *testing.T, _ int) {
		t.Helper()
		l := startHostLife(t, config, s, nil, nil)
		l.liveAsHost()
		k.learn(l.life)
		k.learnWrites(l)
	})
	for number, more := 1, true; !t.Failed() && more; number++ {
		began, before := time.Now(), k.places(s)
		k.killOperators(t, config, s, rand.New(rand.NewPCG(seed, uint64(number))), number)
		more = k.places(s) > before && len(k.open(s)) > 0 && time.Now().Add(time.Since(began)).Before(end)
	}
	if !s.volumes { // each attempt at which takes minutes
		k.killEngines(t, config, s, seed)
	}
}

// round leads so many hosts through their life at the same time.
func round(t *testing.T, name string, hosts int, live func(t *testing.T, host int)) {
	t.Helper()
	if t.Failed() {
		return
	}
	t.Run(name, func(t *testing.T) {
		for host := range hosts {
			t.Run(fmt.Sprint("host ", host), func(t *testing.T) {
				t.Parallel()
				live(t, host)
			})
		}
	})
}

// killOperators shares the places that were not hit yet between hosts. The two of a write are
// for different hosts, because a write that the operator did not live to make is not always
// made later.
func (k *hostKills) killOperators(t *testing.T, config *rest.Config, s shape, r *rand.Rand, number int) {
	t.Helper()
	var points [hostsPerShape]kills
	for host := range points {
		points[host] = kills{}
	}
	first := map[string]int{}
	for _, p := range k.open(s) {
		host, known := first[p.name]
		if !known {
			host = r.IntN(hostsPerShape)
		}
		first[p.name] = (host + 1) % hostsPerShape
		points[host][p] = 0
	}
	round(t, fmt.Sprint("operator, round ", number), hostsPerShape, func(t *testing.T, host int) {
		t.Helper()
		l := startHostLife(t, config, s, nil, points[host])
		defer k.learnWrites(l)
		l.liveAsHost()
	})
}

// killEngines leads hosts through their life once more.
func (k *hostKills) killEngines(t *testing.T, config *rest.Config, s shape, seed uint64) {
	t.Helper()
	k.hits.mu.Lock()
	steps := k.hits.known[s.name]
	k.hits.mu.Unlock()
	var points [hostsPerShape][]killPoint
	chosen := map[string]int{}
	for host := range points {
		points[host] = chooseKillPoints(rand.New(rand.NewPCG(seed, uint64(100+host))), steps, chosen, killsPerLife)
	}
	round(t, "engine", hostsPerShape, func(t *testing.T, host int) {
		t.Helper()
		l := startHostLife(t, config, s, points[host], nil)
		defer k.add(l.life, 1)
		l.liveAsHost()
	})
}

// learnWrites notes what the operator of a host wrote, and where it was killed.
func (k *hostKills) learnWrites(l *hostLife) {
	written := l.writes.written()
	k.mu.Lock()
	defer k.mu.Unlock()
	shape := l.shape.name
	for _, name := range written {
		if !slices.Contains(k.known[shape], name) {
			k.known[shape] = append(k.known[shape], name)
		}
	}
	if k.killed[shape] == nil {
		k.killed[shape] = map[writePoint]bool{}
	}
	for _, p := range l.writes.killedAt() {
		k.killed[shape][p] = true
		k.kills++
	}
}

// open are the places where the operator of no host with such a machine was killed.
func (k *hostKills) open(s shape) (points []writePoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.known[s.name] {
		for _, p := range pointsOf(name) {
			if !k.killed[s.name][p] {
				points = append(points, p)
			}
		}
	}
	return points
}

// places counts those where one was killed.
func (k *hostKills) places(s shape) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.killed[s.name])
}

// left counts the places where none was.
func (k *hostKills) left() (n int) {
	for _, s := range hostShapes {
		n += len(k.open(s))
	}
	return n
}

// print tells where operators and engines were killed and where not.
func (k *hostKills) print(t *testing.T, seed uint64) {
	t.Helper()
	for _, line := range k.lines {
		fmt.Println(line)
	}
	hit := 0
	for _, s := range hostShapes {
		open := k.open(s)
		for _, name := range k.known[s.name] {
			for _, p := range pointsOf(name) {
				if slices.Contains(open, p) {
					fmt.Printf("%-12s never hit: %s\n", s.name, p)
					continue
				}
				hit++
				fmt.Printf("%-12s killed %s\n", s.name, p)
			}
		}
	}
	fmt.Printf("seed %d: operators were killed %d times, at %d places; %d were never hit. Engines were killed %d times, at %d different steps\n",
		seed, k.kills, hit, k.left(), len(k.lines), len(k.names))
	if hit < leastPlaces {
		t.Errorf("%d places were hit, want at least %d", hit, leastPlaces)
	}
}
