package operator_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// writeCounter counts what is written to the API server.
type writeCounter struct {
	next           http.RoundTripper
	writes, events *atomic.Int64
}

func (c writeCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method == http.MethodGet:
	case strings.Contains(r.URL.Path, "/events"):
		c.events.Add(1)
	case strings.Contains(r.URL.Path, "/baremetalhosts"), strings.Contains(r.URL.Path, "/hardwaredata"):
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// countingEngine counts lists of nodes, and all other calls.
type countingEngine struct {
	*demo.Engine
	calls, lists atomic.Int64
}

func (e *countingEngine) Nodes(ctx context.Context, opts provisioner.ListOptions) ([]provisioner.Node, error) {
	e.lists.Add(1)
	return e.Engine.Nodes(ctx, opts)
}

func (e *countingEngine) Node(ctx context.Context, id string) (provisioner.Node, error) {
	e.calls.Add(1)
	return e.Engine.Node(ctx, id)
}

func (e *countingEngine) Find(ctx context.Context, identity provisioner.Identity) (provisioner.Node, error) {
	e.calls.Add(1)
	return e.Engine.Find(ctx, identity)
}

func (e *countingEngine) MACs(ctx context.Context, id string) ([]string, error) {
	e.calls.Add(1)
	return e.Engine.MACs(ctx, id)
}

func (e *countingEngine) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	e.calls.Add(1)
	return e.Engine.Inventory(ctx, id)
}

func (e *countingEngine) Lock(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	e.calls.Add(1)
	return e.Engine.Lock(ctx, id, mark)
}

func (e *countingEngine) Claim(ctx context.Context, id string, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	e.calls.Add(1)
	return e.Engine.Claim(ctx, id, mark, opts)
}

func (e *countingEngine) Manage(ctx context.Context, id string) error {
	e.calls.Add(1)
	return e.Engine.Manage(ctx, id)
}

func (e *countingEngine) Provide(ctx context.Context, id string, opts provisioner.ProvideOptions) error {
	e.calls.Add(1)
	return e.Engine.Provide(ctx, id, opts)
}

// BenchmarkMachinesThatBootAtOnce boots 1,000 machines and waits until all are available hosts. It
// reports the costs per host: writes of the host and its hardware data, events, and calls to the
// engine.
func BenchmarkMachinesThatBootAtOnce(b *testing.B) {
	const machines = 1000
	for b.Loop() {
		var writes, events atomic.Int64
		engine := &countingEngine{}
		bench := newBench(b, func(o *operator.Options) {
			o.Config = rest.CopyConfig(o.Config)
			o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return writeCounter{next: next, writes: &writes, events: &events}
			})
			engine.Engine, _ = o.Engine.(*demo.Engine)
			o.Engine = engine
			o.PollInterval = time.Second
		})
		bench.discover("storm", nil)
		for i := range machines {
			bench.boot(fmt.Sprintf("storm-%04d", i))
		}
		begun := time.Now()
		ready := 0
		for tick := time.NewTicker(200 * time.Millisecond); ready < machines && time.Since(begun) < 3*time.Minute; <-tick.C {
			ready = 0
			for _, h := range bench.hosts() {
				if h.Status.Provisioning.State == v1alpha1.StateAvailable {
					ready++
				}
			}
		}
		if ready != machines {
			b.Fatalf("%d of %d hosts are available", ready, machines)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s/1000-hosts")
		b.ReportMetric(float64(writes.Load())/machines, "writes/host")
		b.ReportMetric(float64(events.Load())/machines, "events/host")
		b.ReportMetric(float64(engine.calls.Load())/machines, "calls/host")
		bench.stop()
	}
}
