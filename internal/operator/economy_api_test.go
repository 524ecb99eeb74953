package operator_test

import (
	"fmt"
	"net/http"
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
	b.stop() // which sends the events that are left
	for what, cost := range map[string]struct{ got, most int64 }{
		"writes of the host and its hardware data": {c.writes.Load(), 4 * machines},
		"events":                   {c.events.Load(), machines + 1}, // one of them tells of all
		"calls, apart from lists,": {c.engine.calls.Load(), 6 * machines},
	} {
		if cost.got > cost.most {
			t.Errorf("%s: %d for %d hosts, want at most %d", what, cost.got, machines, cost.most)
		}
	}
}
