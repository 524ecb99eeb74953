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
	leastPlaces = 40
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
		hits:  &hits{chosen: map[string]int{}, names: map[string]bool{}, known: map[string][]step{}},
		known: map[string][]string{}, killed: map[string]map[writePoint]bool{},
	}
	k.round(t, "undisturbed", 1, func(t *testing.T, s shape, _ int) {
		t.Helper()
		l := startHostLife(t, config, s, nil, nil)
		l.liveAsHost()
		k.learn(l.life)
		k.learnWrites(l)
	})
	// The rest of the time is for engines.
	end, took := time.Now().Add(time.Duration(*seconds)*time.Second*2/3), time.Duration(0)
	for round := 1; !t.Failed() && (round == 1 || k.left() > 0 && time.Now().Add(took).Before(end)); round++ {
		began := time.Now()
		k.killOperators(t, config, rand.New(rand.NewPCG(seed, uint64(round))), round)
		took = time.Since(began)
	}
	k.killEngines(t, config, seed)
	k.print(t, seed)
}

// round leads hosts with all kinds of machines through their life at the same time.
func (k *hostKills) round(t *testing.T, name string, each int, live func(t *testing.T, s shape, number int)) {
	t.Helper()
	if t.Failed() {
		return
	}
	t.Run(name, func(t *testing.T) {
		for _, s := range hostShapes {
			for number := range each {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					live(t, s, number)
				})
			}
		}
	})
}

// killOperators shares the places that were not hit yet between hosts. The two of a write are
// for different hosts, because a write that the operator did not live to make is not always
// made later.
func (k *hostKills) killOperators(t *testing.T, config *rest.Config, r *rand.Rand, round int) {
	t.Helper()
	points := map[string]*[hostsPerShape][]writePoint{}
	for _, s := range hostShapes {
		points[s.name] = new([hostsPerShape][]writePoint)
		first := map[string]int{}
		for _, p := range k.open(s) {
			host, known := first[p.name]
			if !known {
				host = r.IntN(hostsPerShape)
			}
			first[p.name] = (host + 1) % hostsPerShape
			points[s.name][host] = append(points[s.name][host], p)
		}
	}
	k.round(t, fmt.Sprint("operator, round ", round), hostsPerShape, func(t *testing.T, s shape, number int) {
		t.Helper()
		l := startHostLife(t, config, s, nil, points[s.name][number])
		defer k.learnWrites(l)
		l.liveAsHost()
	})
}

// killEngines leads hosts through their life once more.
func (k *hostKills) killEngines(t *testing.T, config *rest.Config, seed uint64) {
	t.Helper()
	points := map[string][][]killPoint{}
	for i, s := range hostShapes {
		for number := range hostsPerShape {
			r := rand.New(rand.NewPCG(seed, uint64(100+i*hostsPerShape+number)))
			points[s.name] = append(points[s.name], chooseKillPoints(r, k.hits.known[s.name], k.chosen, killsPerLife))
		}
	}
	k.round(t, "engine", hostsPerShape, func(t *testing.T, s shape, number int) {
		t.Helper()
		l := startHostLife(t, config, s, points[s.name][number], nil)
		defer k.add(l.life, 1)
		l.liveAsHost()
	})
}

// learnWrites notes what the operator of a host wrote, and where it was killed.
func (k *hostKills) learnWrites(l *hostLife) {
	written := l.proxy.written()
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
	for _, p := range l.proxy.hit {
		k.killed[shape][p] = true
		k.kills++
	}
}

// open are the places where the operator of no host with such a machine was killed.
func (k *hostKills) open(s shape) (points []writePoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range k.known[s.name] {
		for _, when := range []string{"before", "after"} {
			if p := (writePoint{when, name}); !k.killed[s.name][p] {
				points = append(points, p)
			}
		}
	}
	return points
}

// left counts those places.
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
			for _, when := range []string{"before", "after"} {
				p := writePoint{when, name}
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
