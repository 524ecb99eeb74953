package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	realengine "github.com/ingot-metal/ingot/internal/engine"
	baremetal "github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/ironic"
)

// startEngine runs an engine until the test ends.
func startEngine(t *testing.T) *url.URL {
	t.Helper()
	cfg := realengine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir = "127.0.0.1:0", t.TempDir()
	e, err := realengine.Start(t.Context(), realengine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop engine: %v", err)
		}
	})
	at, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// gate holds the requests of an operator until each is let through. It is open at first.
type gate struct {
	engine http.Handler
	// waits gets a channel for each request that waits; closing that lets the request through.
	waits chan chan struct{}

	mu     sync.Mutex
	closed bool
	sent   []string // methods and paths of the requests that were let through
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	body, err := io.ReadAll(r.Body) // before that the server does not see that the client is gone
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if closed {
		through := make(chan struct{})
		select {
		case g.waits <- through:
		case <-r.Context().Done():
			return
		}
		select {
		case <-through:
		case <-r.Context().Done():
			return
		}
	}
	g.mu.Lock()
	g.sent = append(g.sent, r.Method+" "+r.URL.Path)
	g.mu.Unlock()
	g.engine.ServeHTTP(w, r)
}

func (g *gate) close(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

// rival is an operator of a cluster of its own, with hosts on an API server in memory, and
// with a real engine behind a gate.
type rival struct {
	*testing.T

	gate   *gate
	api    client.WithWatch
	engine *ironic.Engine
	nodes  *nodecache.Cache
	config Config
	r      *Reconciler
}

func newRival(t *testing.T, at *url.URL, cluster string) *rival {
	t.Helper()
	o := &rival{T: t, gate: &gate{engine: httputil.NewSingleHostReverseProxy(at), waits: make(chan chan struct{})}, api: newAPI(t)}
	server := httptest.NewServer(o.gate)
	t.Cleanup(server.Close)
	c, err := baremetal.New(baremetal.Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o.engine = ironic.New(c, ironic.Options{})
	o.nodes = nodecache.New(o.engine, nodecache.Options{Logger: slog.New(slog.DiscardHandler)})
	o.config = Config{Cluster: cluster, NodeCache: o.nodes}
	o.restart()
	return o
}

// restart replaces the operator by one that remembers nothing.
func (o *rival) restart() {
	o.r = newTestReconciler(o, o.api, o.engine, time.Now, func(c *Config) { c.Cluster, c.NodeCache = o.config.Cluster, o.config.NodeCache })
}

// add creates a host as discovery does, which has just seen the node.
func (o *rival) add(name, id string) {
	o.Helper()
	o.refresh()
	status, err := json.Marshal(map[string]any{"operationalStatus": "", "hardware": map[string]any{}, "provisioning": map[string]any{"state": "", "ID": id}})
	if err != nil {
		o.Fatal(err)
	}
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: "metal", Name: name, UID: types.UID(o.config.Cluster + name), Generation: 1,
		Annotations: map[string]string{v1alpha1.StatusAnnotation: string(status)}, Finalizers: []string{v1alpha1.HostFinalizer},
		Labels: map[string]string{v1alpha1.PowerManagementLabel: v1alpha1.PowerManagementNone},
	}}
	h.Spec.Online = true
	if err := o.api.Create(o.Context(), h); err != nil {
		o.Fatal(err)
	}
}

// refresh brings the shared cache up to date.
func (o *rival) refresh() {
	o.Helper()
	if err := o.nodes.Refresh(o.Context(), 0); err != nil {
		o.Fatal(err)
	}
}

// pass is one pass over a host. That of an operator which is ended may fail.
func (o *rival) pass(ctx context.Context, name string) {
	_, err := o.r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal", Name: name}})
	if err != nil && ctx.Err() == nil {
		o.Errorf("pass over %s: %v", name, err)
	}
}

func (o *rival) host(name string) (v1alpha1.BareMetalHost, bool) {
	o.Helper()
	var h v1alpha1.BareMetalHost
	err := o.api.Get(o.Context(), client.ObjectKey{Namespace: "metal", Name: name}, &h)
	if client.IgnoreNotFound(err) != nil {
		o.Fatal(err)
	}
	return h, err == nil
}

// begin lets a host have some passes, with each request held at the gate. It returns when
// the first one waits there, or all are over.
func (o *rival) begin(ctx context.Context, name string, passes int) *sequence {
	turn := &sequence{gate: o.gate, over: make(chan struct{})}
	o.gate.close(true)
	go func() {
		defer close(turn.over)
		for range passes {
			o.pass(ctx, name)
		}
	}()
	turn.await()
	return turn
}

// sequence lets the requests of an operator through one by one.
type sequence struct {
	gate *gate
	over chan struct{}
	next chan struct{} // the request that waits; nil when all is over
}

func (t *sequence) await() {
	select {
	case t.next = <-t.gate.waits:
	case <-t.over:
		t.next = nil
		t.gate.close(false)
	}
}

// take lets one request through, and waits until the operator sends the next one.
func (t *sequence) take() {
	close(t.next)
	t.await()
}

// enrol creates a node that belongs to nobody.
func enrol(t *testing.T, at *url.URL) (c *baremetal.Client, id string) {
	t.Helper()
	c, err := baremetal.New(baremetal.Options{Endpoint: at.String()})
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.CreateNode(t.Context(), baremetal.Document{"driver": "fake-hardware"})
	if err != nil {
		t.Fatal(err)
	}
	return c, n.UUID
}

// passUntilUnchanged lets hosts have passes until they have been at rest for some.
func passUntilUnchanged(t *testing.T, name string, operators ...*rival) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		unchanged := true
		for _, o := range operators {
			o.refresh()
			before, _ := o.host(name)
			o.pass(t.Context(), name)
			o.pass(t.Context(), name)
			after, there := o.host(name)
			working := there && (after.Status.Provisioning.State == v1alpha1.StatePreparing || after.Status.Provisioning.State == v1alpha1.StateImporting)
			unchanged = unchanged && before.ResourceVersion == after.ResourceVersion && !working
		}
		if unchanged {
			return
		}
		if time.Now().After(deadline) {
			for _, o := range operators {
				h, _ := o.host(name)
				t.Errorf("the host is not at rest: state %q, conditions %v", h.Status.Provisioning.State, h.Status.Conditions)
			}
			t.FailNow()
		}
	}
}

// hasOneOwner fails unless the node is that of one of two hosts, and stays so when the other host
// is deleted.
func hasOneOwner(t *testing.T, c *baremetal.Client, id, name string, operators [2]*rival) {
	t.Helper()
	n, err := operators[0].engine.Node(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	owner := slices.IndexFunc(operators[:], func(o *rival) bool { return n.Mark == provisioner.MarkOf(o.config.Cluster, "metal", name) })
	if owner < 0 || n.InstanceID != "" {
		t.Fatalf("the node has the mark %q and the instance %q", n.Mark, n.InstanceID)
	}
	winner, loser := operators[owner], operators[1-owner]
	if h, _ := winner.host(name); h.Status.Provisioning.ID != id || h.Status.Provisioning.State != v1alpha1.StateAvailable {
		t.Errorf("the owner has node %q in state %q: %s", h.Status.Provisioning.ID, h.Status.Provisioning.State, conditionOf(h.Status.Conditions, v1alpha1.ProgressingCondition).Message)
	}
	without := []v1alpha1.ProvisioningState{v1alpha1.StateNone, v1alpha1.StateUnmanaged}
	if h, _ := loser.host(name); h.Status.Provisioning.ID != "" || !slices.Contains(without, h.Status.Provisioning.State) {
		t.Errorf("the other one has node %q in state %q", h.Status.Provisioning.ID, h.Status.Provisioning.State)
	}
	asked := func(request string) bool { return strings.HasPrefix(request, "PUT") && strings.Contains(request, id) }
	if i := slices.IndexFunc(loser.gate.sent, asked); i >= 0 {
		t.Errorf("the operator that lost asked for work: %s", loser.gate.sent[i])
	}
	for _, o := range []*rival{loser, winner} {
		h, _ := o.host(name)
		if err := o.api.Delete(t.Context(), &h); err != nil {
			t.Fatal(err)
		}
		for there := true; there; _, there = o.host(name) {
			o.pass(t.Context(), name)
		}
		present, err := c.Node(t.Context(), id)
		switch kept := err == nil; {
		case o == loser && (!kept || present.Extra[v1alpha1.NodeMarkKey] != string(n.Mark)):
			t.Errorf("the deletion of the other host left the node with %v, %v", present.Extra, err)
		case o == winner && kept:
			t.Error("the deletion of the owner left the node")
		}
	}
}

// TestOneOfTwoOperatorsThatTakeANodeAtTheSameMomentGetsIt interleaves the requests of two
// operators to a real engine, from the first one on, in every order.
func TestOneOfTwoOperatorsThatTakeANodeAtTheSameMomentGetsIt(t *testing.T) {
	const orders, name = 1 << 5, "web"
	at := startEngine(t)
	won := map[string]int{}
	for order := range orders {
		operators := [2]*rival{newRival(t, at, "c1"), newRival(t, at, "c2")}
		c, id := enrol(t, at)
		var turns [2]*sequence
		for i, o := range operators {
			o.add(name, id)
			turns[i] = o.begin(t.Context(), name, 3)
		}
		for i := 0; turns[0].next != nil || turns[1].next != nil; i++ {
			turn := i % 2
			if 1<<i < orders {
				turn = order >> i & 1
			}
			if turns[turn].next == nil {
				turn = 1 - turn
			}
			turns[turn].take()
		}
		passUntilUnchanged(t, name, operators[0], operators[1])
		n, err := c.Node(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		mark, _ := n.Extra[v1alpha1.NodeMarkKey].(string)
		won[mark]++
		hasOneOwner(t, c, id, name, operators)
		if t.Failed() {
			t.Fatalf("in the order %05b", order)
		}
	}
	if len(won) != 2 {
		t.Errorf("the node went to %v, want each of two to win sometimes", won)
	}
}

// TestNodeThatAnOperatorHalfTookBecomesThatOfOneHost ends an operator after each of its requests,
// and starts it again. Another operator takes the node, either before the first one begins, which
// does not know of that, or after it has ended.
func TestNodeThatAnOperatorHalfTookBecomesThatOfOneHost(t *testing.T) {
	const name = "web"
	at := startEngine(t)
	for _, late := range []bool{false, true} {
		for after := range 4 {
			operators := [2]*rival{newRival(t, at, "c1"), newRival(t, at, "c2")}
			c, id := enrol(t, at)
			for _, o := range operators {
				o.add(name, id)
			}
			if late {
				operators[1].pass(t.Context(), name)
			}
			operators[0].endsAfter(after, name)
			operators[1].pass(t.Context(), name)
			operators[1].pass(t.Context(), name)
			operators[0].restart()
			passUntilUnchanged(t, name, operators[0], operators[1])
			hasOneOwner(t, c, id, name, operators)
			if t.Failed() {
				t.Fatalf("ended after %d requests, too late: %t", after, late)
			}
		}
	}
}

// endsAfter ends the operator within a pass, after some requests were answered.
func (o *rival) endsAfter(requests int, name string) {
	ctx, end := context.WithCancel(o.Context())
	defer end()
	turn := o.begin(ctx, name, 1)
	for range requests {
		if turn.next != nil {
			turn.take()
		}
	}
	end()
	<-turn.over
	o.gate.close(false)
}
