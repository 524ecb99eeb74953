package operator_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// costs are what an operator sent to the API server and to its engine.
type costs struct {
	writes, events atomic.Int64
	engine         *countingEngine
}

// counted makes an operator count what it sends.
func counted(c *costs) func(*operator.Options) {
	return func(o *operator.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return writeCounter{next: next, writes: &c.writes, events: &c.events}
		})
		engine, _ := o.Engine.(*demo.Engine)
		c.engine = &countingEngine{Engine: engine}
		o.Engine = c.engine
	}
}

// available returns how many hosts of the bench are in the state available.
func (b *bench) available() int {
	b.Helper()
	ready := 0
	for _, h := range b.hosts() {
		if h.Status.Provisioning.State == v1alpha1.StateAvailable {
			ready++
		}
	}
	return ready
}

func TestDiscoveredHostCostsFewWritesEventsAndCalls(t *testing.T) {
	t.Parallel()
	const machines = 20
	var c costs
	b := newBench(t, counted(&c))
	for i := range machines {
		b.boot(fmt.Sprintf("cheap-%02d", i))
	}
	b.discover("cheap", nil)
	b.eventually("all hosts available", func() string {
		if ready := b.available(); ready != machines {
			return fmt.Sprintf("%d of %d hosts are available", ready, machines)
		}
		return ""
	})
	b.stop() // sends the remaining events
	for what, cost := range map[string]struct{ got, most int64 }{
		"writes of the host and its hardware data": {c.writes.Load(), 4 * machines},
		"events":                   {c.events.Load(), machines + 1}, // one event is about all hosts
		"calls, apart from lists,": {c.engine.calls.Load(), 6 * machines},
	} {
		if cost.got > cost.most {
			t.Errorf("%s: %d for %d hosts, want at most %d", what, cost.got, machines, cost.most)
		}
	}
}

// kinds counts the writes of an operator by what was written, as in "PATCH baremetalhosts/status".
// It is safe for concurrent use.
type kinds struct {
	mu     sync.Mutex
	counts map[string]int
}

func (k *kinds) wrap(next http.RoundTripper) http.RoundTripper { return kindCounter{k, next} }

// of returns the number of writes to these resources and their subresources.
func (k *kinds) of(resources ...string) (sum int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for what, n := range k.counts {
		for _, resource := range resources {
			if strings.Contains(what, " "+resource) {
				sum += n
			}
		}
	}
	return sum
}

type kindCounter struct {
	kinds *kinds
	next  http.RoundTripper
}

func (c kindCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, rest, namespaced := strings.Cut(r.URL.Path, "/namespaces/"); namespaced && r.Method != http.MethodGet {
		parts := strings.Split(rest, "/") // namespace, resource, name, subresource
		what := r.Method + " " + parts[1]
		if len(parts) > 3 {
			what += "/" + parts[3]
		}
		c.kinds.mu.Lock()
		c.kinds.counts[what]++
		c.kinds.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// TestManyIdleHostsCostNoWritesAndNothingOfTheEngineButItsList looks at hosts at rest. At first the
// operator that brought them there runs, then another one, which begins with a pass over each host.
func TestManyIdleHostsCostNoWritesAndNothingOfTheEngineButItsList(t *testing.T) {
	t.Parallel()
	const plain, managed = 40, 10
	written := kinds{counts: map[string]int{}}
	engine := &countingEngine{}
	options := func(o *operator.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(written.wrap)
		if engine.Engine == nil {
			engine.Engine, _ = o.Engine.(*demo.Engine)
		}
		o.Engine = engine
	}
	b := newBench(t, options)
	for i := range plain {
		b.boot(fmt.Sprintf("idle-%02d", i))
	}
	for i := range managed {
		b.bmcHost(fmt.Sprintf("managed-%02d", i), nil)
	}
	b.discover("idle", nil)
	objects := func() int { return written.of("baremetalhosts", "hardwaredata", "secrets", "hostfirmware", "events") }
	last, unchanged := 0, 0
	b.eventually("hosts at rest", func() string {
		if ready := b.available(); ready != plain+managed {
			return fmt.Sprintf("%d hosts are available", ready)
		}
		if now := objects(); now != last {
			last, unchanged = now, 0
		}
		if unchanged++; unchanged < 25 {
			return "they are still written"
		}
		return ""
	})
	lists, calls := engine.lists.Load(), engine.calls.Load()
	b.eventually("some polls", func() string {
		if n := engine.lists.Load() - lists; n < 10 {
			return fmt.Sprintf("%d polls", n)
		}
		return ""
	})
	if now := objects(); now != last || engine.calls.Load() != calls {
		t.Errorf("%d writes and %d calls while nothing happened; all writes: %v", now-last, engine.calls.Load()-calls, written.counts)
	}

	b.stop()
	last = objects()
	b.startWith(plane.Config(t), options)
	b.boot("idle-last")
	b.inState("idle-last", v1alpha1.StateAvailable)
	b.forAWhile("a new operator leaves hosts at rest alone", func() string {
		if n := objects() - last; n > 4+2 {
			return fmt.Sprintf("%d writes, want those of the new host only; all writes: %v", n, written.counts)
		}
		return ""
	})
}

// TestHostWithABMCCostsFewWrites counts writes from a host's registration until it is available and
// powered on.
func TestHostWithABMCCostsFewWrites(t *testing.T) {
	t.Parallel()
	const machines = 20
	written := kinds{counts: map[string]int{}}
	b := newBench(t, func(o *operator.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(written.wrap)
	})
	for i := range machines {
		b.bmcHost(fmt.Sprintf("cheap-%02d", i), nil)
	}
	b.eventually("all hosts available and on", func() string {
		ready := 0
		for _, h := range b.hosts() {
			if h.Status.Provisioning.State == v1alpha1.StateAvailable && h.Status.PoweredOn {
				ready++
			}
		}
		if ready != machines {
			return fmt.Sprintf("%d of %d hosts are available and on", ready, machines)
		}
		return ""
	})
	b.stop() // sends the remaining events
	for what, cost := range map[string]struct{ got, most int }{
		"writes of the host, its hardware data and its Secret": {written.of("baremetalhosts", "hardwaredata", "secrets"), 10 * machines},
		"writes of the objects about its firmware":             {written.of("hostfirmware", "firmwareschemas"), 5*machines + 10}, // hosts may all create the schema at once
		"events": {written.of("events"), 5 * machines},
	} {
		if cost.got > cost.most {
			t.Errorf("%s: %d for %d hosts, want at most %d; all writes: %v", what, cost.got, machines, cost.most, written.counts)
		}
	}
}
