//go:build fault

package fault_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/up"
	"github.com/ingot-metal/ingot/test/cluster"
)

const (
	// clusterTime is how many times longer than -seconds this test may take.
	clusterTime = 10
	// mostRounds limits how many hosts are needed.
	mostRounds = 4
	// leastHit is how many percent of the places must be hit. Those of crucialWrites must all be
	// hit, each in one shape or another.
	leastHit = 75
)

// clusterKills is where the operators of clusters were killed, by shape.
type clusterKills map[string]*places

// TestClustersSurviveTheDeathOfTheirOperator leads clusters of Cluster API through their lives.
// Meanwhile the operator is killed just before and just after each kind of write to the API servers
// of the management cluster and of the workload cluster.
func TestClustersSurviveTheDeathOfTheirOperator(t *testing.T) {
	seed := cmp.Or(*seed, uint64(time.Now().UnixNano())%1_000_000)
	fmt.Printf("seed %d; to repeat the choices: make fault SEED=%d SECONDS=%d RUN=%s\n", seed, seed, *seconds, t.Name())
	end := time.Now().Add(time.Duration(*seconds*clusterTime) * time.Second)
	machines, k := 0, clusterKills{}
	for _, s := range clusterShapes {
		machines += s.hosts() * (1 + mostRounds*s.lives)
		k[s.name] = newPlaces()
	}
	w := cluster.StartForTest(t, machines, func(o *up.Options) { o.WithoutOperator = true })
	t.Run("undisturbed", func(t *testing.T) {
		for _, s := range clusterShapes {
			k.live(t, w, s, s.name, nil)
		}
	})
	for number, more := 1, true; !t.Failed() && more && number <= mostRounds; number++ {
		began, before := time.Now(), k.hit()
		t.Run(fmt.Sprint("round ", number), func(t *testing.T) {
			for i, s := range clusterShapes {
				k.kill(t, w, s, rand.New(rand.NewPCG(seed+uint64(i)<<32, uint64(number))), number == 1)
			}
		})
		more = k.crucialMissed() > 0 || isUseful(began, before, k.hit(), k.left(), end)
	}
	if !t.Failed() {
		k.report(t, seed)
	}
}

// kill shares the places that were not hit yet among clusters. In the first round, the operator is
// killed at a random one of the writes with a name, later at the first one.
func (k clusterKills) kill(t *testing.T, w *cluster.World, s clusterShape, r *rand.Rand, first bool) {
	t.Helper()
	p := k[s.name]
	shares := p.share(r, s.lives, func(name string) int {
		if !first {
			return 0
		}
		return r.IntN(p.times[name])
	})
	for i, points := range shares {
		if len(points) > 0 {
			k.live(t, w, s, fmt.Sprint(s.name, " ", i), points)
		}
	}
}

// live leads a cluster through its life while others live.
func (k clusterKills) live(t *testing.T, w *cluster.World, s clusterShape, name string, points kills) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		l := startClusterLife(t, w, s, points)
		defer func() { k[s.name].learn(l.writes, l.there.writes) }()
		l.live()
	})
}

// hit counts the places where operators were killed.
func (k clusterKills) hit() (n int) {
	for _, p := range k {
		n += p.hit()
	}
	return n
}

// left counts the places where no operator was killed.
func (k clusterKills) left() (n int) {
	for _, p := range k {
		n += len(p.open())
	}
	return n
}

// report tells where operators were killed and where not.
func (k clusterKills) report(t *testing.T, seed uint64) {
	t.Helper()
	kills := 0
	for _, s := range clusterShapes {
		k[s.name].report(fmt.Sprintf("%-13s ", s.name))
		kills += k[s.name].kills
	}
	hit, left := k.hit(), k.left()
	fmt.Printf("seed %d: operators of clusters were killed %d times, at %d places; %d were never hit\n", seed, kills, hit, left)
	if hit*100 < leastHit*(hit+left) {
		t.Errorf("%d of %d places were hit, want %d of 100", hit, hit+left, leastHit)
	}
	k.reportCrucial(t)
}
