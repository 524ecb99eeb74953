//go:build fault

package fault_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/internal/controlplane/controlplanetest"
)

const (
	// hostsPerShape is how many hosts with the same kind of machine live at the same time.
	hostsPerShape = 2
	// hostTime is how many times longer than -seconds operators may be killed. Engines are killed
	// afterwards.
	hostTime = 3
	// killsPerVolume is how often an engine is killed in the life of a host with volumes. A volume
	// may then have to be made again, which takes minutes: the driver waits for other volumes to
	// appear.
	killsPerVolume = 4
	// leastPlaces is how many different places of operators must be hit.
	leastPlaces = 300
)

// hostKills is where the operators and engines of hosts were killed.
type hostKills struct {
	*hits // of engines

	places map[string]*places // of operators, by shape
}

// TestHostsSurviveTheDeathOfTheirOperatorAndTheirEngine leads hosts through their life while the
// operator is killed just before and just after each kind of write to the API server. Then it does
// so while the engine is killed at commits that the seed chooses.
func TestHostsSurviveTheDeathOfTheirOperatorAndTheirEngine(t *testing.T) {
	seed := cmp.Or(*seed, uint64(time.Now().UnixNano())%1_000_000)
	fmt.Printf("seed %d; to repeat the choices: make fault SEED=%d SECONDS=%d RUN=%s\n", seed, seed, *seconds, t.Name())
	var clusters []*rest.Config
	for range placeNames {
		clusters = append(clusters, controlplanetest.Start(t, controlplanetest.Options{}).Config())
	}
	k := &hostKills{hits: &hits{names: map[string]bool{}, known: map[string][]step{}}, places: map[string]*places{}}
	for _, s := range hostShapes {
		k.places[s.name] = newPlaces()
	}
	t.Run("hosts", func(t *testing.T) {
		for i, s := range hostShapes {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				k.killAll(t, clusters, s, seed+uint64(i)<<32)
			})
		}
	})
	k.report(t, seed)
}

// killAll kills the operators and engines of hosts with a kind of machine.
func (k *hostKills) killAll(t *testing.T, clusters []*rest.Config, s shape, seed uint64) {
	t.Helper()
	end := time.Now().Add(time.Duration(*seconds*hostTime) * time.Second)
	p := k.places[s.name]
	round(t, "undisturbed", 1, func(t *testing.T, _ int) {
		t.Helper()
		l := startHostLife(t, clusters, s, nil, nil)
		l.liveAsHost()
		k.learn(l.life)
		l.learn(p)
	})
	for number, more := 1, true; !t.Failed() && more; number++ {
		began, before := time.Now(), p.hit()
		k.killOperators(t, clusters, s, rand.New(rand.NewPCG(seed, uint64(number))), number)
		more = isUseful(began, before, p.hit(), len(p.open()), end)
	}
	k.killEngines(t, clusters, s, seed)
}

// round leads this many hosts through their life at the same time.
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

// killOperators shares the places that were not hit yet among hosts.
func (k *hostKills) killOperators(t *testing.T, clusters []*rest.Config, s shape, r *rand.Rand, number int) {
	t.Helper()
	shares := k.places[s.name].share(r, hostsPerShape, func(string) int { return 0 })
	round(t, fmt.Sprint("operator, round ", number), hostsPerShape, func(t *testing.T, host int) {
		t.Helper()
		l := startHostLife(t, clusters, s, nil, shares[host])
		defer l.learn(k.places[s.name])
		l.liveAsHost()
	})
}

// killEngines leads hosts through their life once more.
func (k *hostKills) killEngines(t *testing.T, clusters []*rest.Config, s shape, seed uint64) {
	t.Helper()
	k.mu.Lock()
	steps := k.known[s.name]
	k.mu.Unlock()
	var points [hostsPerShape][]killPoint
	chosen, most := map[string]int{}, killsPerLife
	if s.volumes {
		most = killsPerVolume
	}
	for host := range points {
		points[host] = chooseKillPoints(rand.New(rand.NewPCG(seed, uint64(100+host))), steps, chosen, most)
	}
	round(t, "engine", hostsPerShape, func(t *testing.T, host int) {
		t.Helper()
		l := startHostLife(t, clusters, s, points[host], nil)
		defer k.add(l.life, 1)
		l.liveAsHost()
	})
}

// report tells where operators and engines were killed and where not.
func (k *hostKills) report(t *testing.T, seed uint64) {
	t.Helper()
	for _, line := range k.lines {
		fmt.Println(line)
	}
	kills, hit, left := 0, 0, 0
	for _, s := range hostShapes {
		p := k.places[s.name]
		p.report(fmt.Sprintf("%-12s ", s.name))
		kills, hit, left = kills+p.kills, hit+p.hit(), left+len(p.open())
	}
	fmt.Printf("seed %d: operators were killed %d times, at %d places; %d were never hit. Engines were killed %d times, at %d different steps\n",
		seed, kills, hit, left, len(k.lines), len(k.names))
	if hit < leastPlaces {
		t.Errorf("%d places were hit, want at least %d", hit, leastPlaces)
	}
}
