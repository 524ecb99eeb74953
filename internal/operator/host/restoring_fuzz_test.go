package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// The nodes of the fuzzed engine: one of the host, one of nobody, the others of
// somebody else.
const (
	ownNode  = "00000000-0000-4000-8000-000000000001"
	freeNode = "00000000-0000-4000-8000-000000000002"
	// foreignPrefix begins the IDs and names of the nodes of somebody else.
	foreignPrefix = "f0000000"
	markedNode    = foreignPrefix + "-0000-4000-8000-000000000001"
	namedNode     = foreignPrefix + "-0000-4000-8000-000000000002"
	activeNode    = foreignPrefix + "-0000-4000-8000-000000000003"
)

// watchedEngine reports requests that concern nodes of somebody else.
type watchedEngine struct {
	*demo.Engine
	tb testing.TB
}

func (e watchedEngine) watch(what, id string) {
	if strings.HasPrefix(strings.ToLower(id), foreignPrefix) {
		e.tb.Errorf("%s node %s, which belongs to somebody else", what, id)
	}
}

func (e watchedEngine) Inventory(ctx context.Context, id string) (*provisioner.Inventory, error) {
	e.watch("reads the inventory of", id)
	return e.Engine.Inventory(ctx, id)
}

func (e watchedEngine) Lock(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	e.watch("locks", id)
	return e.Engine.Lock(ctx, id, mark)
}

func (e watchedEngine) Claim(ctx context.Context, id string, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	e.watch("marks", id)
	return e.Engine.Claim(ctx, id, mark, opts)
}

func (e watchedEngine) Release(ctx context.Context, id string, mark provisioner.Mark, released string) error {
	e.watch("releases", id)
	return e.Engine.Release(ctx, id, mark, released)
}

func (e watchedEngine) TakeReleased(ctx context.Context, id string, mark provisioner.Mark) (provisioner.Node, error) {
	e.watch("takes", id)
	return e.Engine.TakeReleased(ctx, id, mark)
}

func (e watchedEngine) Manage(ctx context.Context, id string) error {
	e.watch("manages", id)
	return e.Engine.Manage(ctx, id)
}

func (e watchedEngine) Provide(ctx context.Context, id string, opts provisioner.ProvideOptions) error {
	e.watch("provides", id)
	return e.Engine.Provide(ctx, id, opts)
}

func (e watchedEngine) Delete(ctx context.Context, id string, mark provisioner.Mark) error {
	e.watch("deletes", id)
	return e.Engine.Delete(ctx, id, mark)
}

// newWatchedEngine returns an engine with the nodes above.
func newWatchedEngine(tb testing.TB, now func() time.Time) watchedEngine {
	tb.Helper()
	engine := demo.New(demo.Options{Now: now})
	for id, change := range map[string]func(*provisioner.Node){
		ownNode:    func(n *provisioner.Node) { n.Mark = provisioner.MarkOf("c1", "metal", "web") },
		freeNode:   func(*provisioner.Node) {},
		markedNode: func(n *provisioner.Node) { n.Mark = provisioner.MarkOf("c1", "other", "web") },
		namedNode:  func(n *provisioner.Node) { n.Name = foreignPrefix + "-db" },
		activeNode: func(n *provisioner.Node) { n.State = node.Active },
	} {
		engine.Discover(demo.Machine{Inventory: demo.SampleInventory(id), Change: func(n *provisioner.Node) {
			n.ID = id
			change(n)
		}})
	}
	return watchedEngine{engine, tb}
}

// newFuzzReconciler returns a reconciler whose API server holds the host.
func newFuzzReconciler(tb testing.TB, engine watchedEngine, now func() time.Time, host *v1alpha1.BareMetalHost) *Reconciler {
	tb.Helper()
	return newTestReconciler(tb, newAPI(tb, host), engine, now, func(c *Config) { c.MaxBackoff = time.Minute })
}

func statusOf(state, id string) string {
	return fmt.Sprintf(`{"operationalStatus":"OK","provisioning":{"state":%q,"ID":%q}}`, state, id)
}

// FuzzRestoredStatus lets a host with any status annotation live and die. No annotation
// may end the operator, or give the host a node that belongs to somebody else.
func FuzzRestoredStatus(f *testing.F) {
	for _, state := range []string{
		"", "unmanaged", "importing", "registering", "match profile", "preparing", "ready", "available",
		"provisioned", "externally provisioned", "deprovisioning", "deleting", "of a newer version",
	} {
		f.Add(statusOf(state, markedNode), false, false)
		f.Add(statusOf(state, markedNode), true, true)
	}
	for _, id := range []string{ownNode, freeNode, namedNode, activeNode, foreignPrefix + "-db", strings.ToUpper(markedNode), "."} {
		f.Add(statusOf("available", id), false, true)
		f.Add(statusOf("deleting", id), true, true)
	}
	f.Add(`{"errorType":"registration error","errorCount":9223372036854775807,"provisioning":{"ID":"`+markedNode+`"}}`, false, true)
	f.Add(`{"hardware":{"nics":[{"mac":"x"}]},"lastUpdated":"2026-01-02T03:04:05Z","provisioning":{"ID":"`+markedNode+`"}}`, true, false)
	f.Add(`null`, false, false)
	f.Fuzz(func(t *testing.T, status string, deletedFirst, downFirst bool) {
		clock := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		now := func() time.Time { return clock }
		host := &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "metal", Name: "web", UID: "u1", Generation: 1,
				Finalizers:  []string{v1alpha1.HostFinalizer},
				Annotations: map[string]string{v1alpha1.StatusAnnotation: status},
			},
		}
		engine := newWatchedEngine(t, now)
		r := newFuzzReconciler(t, engine, now, host)
		name := client.ObjectKeyFromObject(host)
		passes := func(deleted bool) {
			for range 5 {
				// A status that the API would refuse is an error, which is tried again.
				_, _ = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
				clock = clock.Add(time.Hour)
				engine.SetDown("")
				var h v1alpha1.BareMetalHost
				if r.Client.Get(t.Context(), name, &h) == nil && !deleted && strings.HasPrefix(strings.ToLower(h.Status.Provisioning.ID), foreignPrefix) {
					t.Fatalf("host has node %s, which belongs to somebody else", h.Status.Provisioning.ID)
				}
			}
		}
		if downFirst {
			engine.SetDown("no route to host")
		}
		if !deletedFirst {
			passes(false)
		}
		if err := client.IgnoreNotFound(r.Client.Delete(t.Context(), host)); err != nil {
			t.Fatal(err)
		}
		passes(true)
		for _, id := range []string{markedNode, namedNode, activeNode} {
			if _, err := engine.Node(t.Context(), id); err != nil {
				t.Errorf("node of somebody else: %v", err)
			}
		}
	})
}
