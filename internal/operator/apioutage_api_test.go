package operator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// forwarder passes connections on to an API server, except while it is cut.
type forwarder struct {
	target string

	mu      sync.Mutex
	cut     bool
	conns   map[net.Conn]struct{}
	refused atomic.Int32 // connections since the last cut
}

// startForwarder returns a forwarder, and a configuration that reaches the API server through it.
func startForwarder(t *testing.T, config *rest.Config) (*forwarder, *rest.Config) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{target: target.Host, conns: map[net.Conn]struct{}{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.set(true)
		serving.Wait()
	})
	through := rest.CopyConfig(config)
	through.Host = (&url.URL{Scheme: target.Scheme, Host: l.Addr().String()}).String()
	return f, through
}

func (f *forwarder) serve(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer to.Close()
	f.mu.Lock()
	if f.cut {
		f.refused.Add(1)
		f.mu.Unlock()
		return
	}
	f.conns[from], f.conns[to] = struct{}{}, struct{}{}
	f.mu.Unlock()
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = from.Close()
			_ = to.Close()
		})
	}
	copying.Wait()
	f.mu.Lock()
	delete(f.conns, from)
	delete(f.conns, to)
	f.mu.Unlock()
}

// set cuts all connections, or lets new ones through.
func (f *forwarder) set(cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = cut
	f.refused.Store(0)
	if cut {
		for conn := range f.conns {
			_ = conn.Close()
		}
	}
}

// beginsDeployment waits until the engine was asked once to deploy a host.
func (b *bench) beginsDeployment(name string) {
	b.Helper()
	b.eventually("the deployment", func() string {
		if n := b.count(name, "deploy"); n != 1 {
			return fmt.Sprintf("%d deployments", n)
		}
		return ""
	})
}

// wereAsked checks how often the engine was asked each verb for each host.
func (b *bench) wereAsked(wanted map[string]map[string]int) {
	b.Helper()
	for name, verbs := range wanted {
		for verb, want := range verbs {
			if got := b.count(name, verb); got != want {
				b.Errorf("%s was asked of %s %d times, want %d; all: %q", verb, name, got, want, b.asked(name))
			}
		}
	}
}

// The engine finishes its work, and people change hosts, while the operator does not reach the API
// server. Watches end and come back, and no work is done twice.
func TestHostsGoOnAfterTheAPIServerWasAway(t *testing.T) {
	t.Parallel()
	config := plane.Config(t)
	api, through := startForwarder(t, config)
	b := newIdleBenchOn(t, config)
	b.engine = demo.New(demo.Options{Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: 2 * time.Second}})
	b.startWith(through, nil)
	withImage := func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") }
	b.bmcHost("used", withImage)
	b.inState("used", v1alpha1.StateProvisioned)
	used := b.poweredOn("used")
	b.bmcHost("web", withImage)
	b.inState("web", v1alpha1.StateProvisioning)
	b.beginsDeployment("web")

	api.set(true)
	b.update(used, func() { used.Spec.Online = false })
	late := b.bmcHost("late", nil)
	b.eventually("twenty attempts to reach the API server", func() string {
		if n := api.refused.Load(); n < 20 {
			return fmt.Sprintf("%d", n)
		}
		return ""
	})
	if h := b.host(late.Name); h.Status.Provisioning.State != v1alpha1.StateNone {
		t.Errorf("host that was created meanwhile in %q, want the operator cut off", h.Status.Provisioning.State)
	}
	api.set(false)

	b.inState("web", v1alpha1.StateProvisioned)
	b.poweredOn("web")
	b.inState("late", v1alpha1.StateAvailable)
	b.eventually("the power-off of host used", func() string {
		if b.host("used").Status.PoweredOn {
			return "it is on"
		}
		return ""
	})
	b.wereAsked(map[string]map[string]int{
		"web":  {"inspect": 1, "deploy": 1, "undeploy": 0},
		"used": {"inspect": 1, "deploy": 1, "undeploy": 0},
		"late": {"inspect": 1, "deploy": 0},
	})
}

// The outage outlasts the operator's lease. The operator has to end then, because another one may
// lead. Its successor continues the work.
func TestHostsGoOnAfterAnOutageThatOutlastedTheLease(t *testing.T) {
	t.Parallel()
	config := plane.Config(t)
	api, through := startForwarder(t, config)
	b := newIdleBenchOn(t, config)
	b.engine = demo.New(demo.Options{Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: 2 * time.Second}})
	run := func(config *rest.Config) <-chan error {
		op, err := operator.New(operator.Options{
			Config: config, Engine: b.engine, Namespaces: []string{b.namespace}, PollInterval: 100 * time.Millisecond,
			LeaderElection: true, LeaderElectionNamespace: b.namespace, Controllers: []string{operator.GroupHost},
			LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		var running sync.WaitGroup
		running.Go(func() { ended <- op.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
		})
		return ended
	}
	first := run(through)
	b.bmcHost("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = image("https://images/os.qcow2") })
	b.inState("web", v1alpha1.StateProvisioning)
	b.beginsDeployment("web")
	api.set(true)
	select {
	case err := <-first:
		if err == nil || !strings.Contains(err.Error(), "was lost") {
			t.Errorf("the operator that lost its lease ended with %v", err)
		}
	case <-time.After(testTimeout):
		t.Fatal("an operator without its lease goes on")
	}
	late := b.bmcHost("late", nil)
	run(config)
	b.inState("web", v1alpha1.StateProvisioned)
	b.poweredOn("web")
	b.inState(late.Name, v1alpha1.StateAvailable)
	b.wereAsked(map[string]map[string]int{"web": {"inspect": 1, "deploy": 1, "undeploy": 0}, "late": {"inspect": 1}})
}
