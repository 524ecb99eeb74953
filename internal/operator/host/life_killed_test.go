package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// killed lets time pass for a host until the operator sends a request to the engine. The engine
// carries it out, and the operator ends before it writes anything more. Another operator takes its
// place.
func (l *life) killed(name, verb string) {
	l.Helper()
	dead := false
	errDead := errors.New("the operator was killed")
	dying := interceptor.NewClient(l.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if dead {
				return errDead
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if dead {
				return errDead
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	asked := observer{l.engine, func(what string) { dead = dead || what == verb }}
	r := newTestReconciler(l, dying, asked, func() time.Time { return l.now }, l.change)
	for range passes {
		res, err := r.Reconcile(l.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "metal", Name: name}})
		if dead {
			l.restart()
			return
		}
		if err != nil {
			l.Fatalf("pass over %s: %v", name, err)
		}
		l.now = l.now.Add(res.RequeueAfter)
	}
	l.Fatalf("nobody asked for %s", verb)
}

// nodes are all nodes of the engine.
func (l *life) nodes() []provisioner.Node {
	l.Helper()
	all, err := l.engine.Nodes(l.Context(), provisioner.ListOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return all
}

func TestNodeWhoseIDWasNeverStoredGoesWithItsHost(t *testing.T) {
	for name, prepare := range map[string]func(*life){
		"of a new host": func(*life) {},
		"of a host whose former node the engine has lost": func(l *life) {
			l.engine.Forget(l.rests("web", v1alpha1.StateAvailable).Status.Provisioning.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", nil)
			prepare(l)
			before := l.host("web").Status.Provisioning.ID
			l.killed("web", "create")
			if made := l.nodes(); len(made) != 1 || l.host("web").Status.Provisioning.ID != before {
				t.Fatalf("nodes %v and host with node %q, want one that the host does not know of", made, l.host("web").Status.Provisioning.ID)
			}
			l.remove(l.host("web"))
			l.gone("web")
			if left := l.nodes(); len(left) != 0 {
				t.Errorf("nodes %v are left", left)
			}
		})
	}
}

func TestNodeOfTheSameNameThatIsNotTheHostsStays(t *testing.T) {
	for name, mark := range map[string]provisioner.Mark{
		"of another cluster": provisioner.MarkOf("c2", "metal", "web"), "of nobody": "",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("web"), Change: func(n *provisioner.Node) {
				n.Name, n.Mark, n.State = provisioner.NodeName("metal", "web"), mark, node.Active
			}})
			l.add("web", nil)
			l.pass("web") // it has its finalizer, and nothing else
			l.remove(l.host("web"))
			l.gone("web")
			if left := l.nodes(); len(left) != 1 {
				t.Errorf("nodes %v, want the one that was there", left)
			}
		})
	}
}

func TestDeletionWithoutTheEngineSaysWhichNodeMayBeLeft(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.killed("web", "create")
	l.engine.SetDown("no route")
	l.remove(l.host("web"))
	l.gone("web")
	l.tells(string(eventDeleteGaveUp))
}

// TestDeletedHostTakesNoUncheckedNodeForItsOwn gives a host a status annotation that names the node
// of another cluster's host with the same name, whose operator does not mark nodes. The deletion of
// the host begins while the engine is away.
func TestDeletedHostTakesNoUncheckedNodeForItsOwn(t *testing.T) {
	for name, passes := range map[string]int{"engine that comes back": 1, "engine that stays away": 100} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			id := l.engine.Discover(demo.Machine{Inventory: demo.SampleInventory("web"), Change: func(n *provisioner.Node) {
				n.Name, n.State, n.InstanceID = provisioner.NodeName("metal", "web"), node.Active, "11111111-0000-4000-8000-000000000001"
			}})
			l.add("web", func(h *v1alpha1.BareMetalHost) {
				h.Finalizers = []string{v1alpha1.HostFinalizer}
				h.Annotations = map[string]string{v1alpha1.StatusAnnotation: `{"provisioning":{"state":"available","ID":"` + id + `"}}`}
			})
			l.engine.SetDown("no route")
			l.remove(l.host("web"))
			for range passes {
				if l.host("web") != nil {
					l.now = l.now.Add(l.pass("web"))
				}
			}
			if passes > 1 {
				if l.host("web") != nil {
					t.Error("the host is still there")
				}
				l.tells(string(eventDeleteGaveUp))
			}
			l.engine.SetDown("")
			if l.host("web") != nil {
				l.gone("web")
			}
			if left := l.nodes(); len(left) != 1 || left[0].Mark != "" {
				t.Errorf("nodes %v, want the one that was there, as it was", left)
			}
			l.does("web", 0)
		})
	}
}

func TestInspectionIsNotRepeatedWhenTheOperatorEndsAfterAskingForIt(t *testing.T) {
	for name, tt := range map[string]struct {
		host      string
		durations map[demo.Verb]time.Duration
		want      []string
	}{
		"over before the next one begins": {"web", nil, []string{"create", "manage", "inspect", "provide", "power on"}},
		"still under way":                 {"web", map[demo.Verb]time.Duration{demo.VerbInspect: time.Minute}, []string{"create", "manage", "inspect", "provide", "power on"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{Now: func() time.Time { return l.now }, Durations: tt.durations})
			l.restart()
			l.add(tt.host, nil)
			l.killed(tt.host, "inspect")
			l.rests(tt.host, v1alpha1.StateAvailable)
			l.does(tt.host, 0, tt.want...)
		})
	}
}

func TestFailedInspectionIsAskedForAgainOnceWhenTheOperatorEndsMeanwhile(t *testing.T) {
	l := newLife(t, nil)
	l.add("demo-inspection-error", nil)
	l.until("demo-inspection-error", "failed", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 1 })
	before := len(l.effects("demo-inspection-error"))
	l.killed("demo-inspection-error", "inspect")
	l.until("demo-inspection-error", "failed twice", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount == 2 })
	l.does("demo-inspection-error", before, "manage", "inspect")
}
