// Package host is the controller of BareMetalHost. It manages hosts from their
// creation to their deletion; in this version those without a BMC, up to the state
// available. Hosts with a BMC are not changed.
//
// A pass loads the host, runs the phases in their order until one stops it,
// computes the conditions and writes once: first the status, then labels,
// annotations, finalizers and spec. Requests of a phase to the
// engine are repeatable, because a pass whose write is refused starts over. Decisions are
// functions of values and are called decide…; effects are in the phases.
package host

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// nodeView is the shared cache of the engine's nodes.
type nodeView interface {
	AgentWindow() time.Duration
	Node(id string) (provisioner.Node, bool)
	Fetch(ctx context.Context, id string) (provisioner.Node, error)
	Forget(id string)
	Find(ctx context.Context, identity provisioner.Identity, claimed func(id string) bool) (provisioner.Node, error)
}

// inventoryReader reads the inventory of a node.
type inventoryReader interface {
	Inventory(ctx context.Context, id string) (*provisioner.Inventory, error)
}

// engine is the part of an engine that the phases use.
type engine interface {
	inventoryReader
	provisioner.Lifecycle
}

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server. The
	// cache needs the index that IndexFields registers.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// NodeCache is the shared cache of the engine's nodes.
	NodeCache nodeView
	// Cluster identifies the Kubernetes cluster in the marks of nodes: the UID of
	// its namespace kube-system.
	Cluster string
	// Engine changes nodes.
	Engine engine
	// Recorder publishes events.
	Recorder events.EventRecorder
	// Metrics counts outcomes.
	Metrics *Metrics
	// MaxBackoff is the longest wait between two attempts after errors.
	MaxBackoff time.Duration
	// Now is the clock.
	Now func() time.Time
}

// phase is one step of a pass. It changes the scope's host and may stop the
// pass.
type phase interface {
	reconcile(ctx context.Context, s *scope) (result, error)
}

// Reconciler brings hosts to the state that their specs ask for.
type Reconciler struct {
	Config

	phases  []phase
	asked   *attempts
	written *writes
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	owners := ownership{
		links:   links{client: config.Client, nodes: config.NodeCache},
		cluster: config.Cluster, engine: config.Engine,
	}
	data := hardwareData{client: config.Client, live: config.Live}
	asked := &attempts{sent: map[types.UID]prepareStep{}}
	return &Reconciler{
		Config:  config,
		asked:   asked,
		written: &writes{versions: map[types.UID]string{}},
		phases: []phase{
			restoring{data: data, nodes: config.NodeCache, owners: owners},
			claiming{},
			deletion{
				engine: config.Engine, nodes: config.NodeCache, owners: owners,
				data: data, metrics: config.Metrics, maxBackoff: config.MaxBackoff,
			},
			registration{},
			rebootRequests{},
			suppliedDetails{data: data},
			lookup{owners: owners, metrics: config.Metrics},
			linked{owners: owners, nodes: config.NodeCache},
			importing{engine: config.Engine, data: data, maxBackoff: config.MaxBackoff},
			preparing{engine: config.Engine, maxBackoff: config.MaxBackoff, asked: asked},
			available{},
			unsupported{},
		},
	}
}

// Reconcile runs one pass for one host.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var host v1alpha1.BareMetalHost
	if err := r.Client.Get(ctx, req.NamespacedName, &host); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.written.after(&host) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if _, paused := host.Annotations[v1alpha1.PausedAnnotation]; paused {
		return ctrl.Result{}, nil
	}
	r.Metrics.reconciled(&host)
	s := newScope(&host, r.Now(), r.NodeCache.AgentWindow())
	res, err := r.run(ctx, s)
	return r.finish(ctx, s, res, err)
}

func (r *Reconciler) run(ctx context.Context, s *scope) (result, error) {
	var res result
	for _, p := range r.phases {
		next, err := p.reconcile(ctx, s)
		res.requeueAfter = soonest(res.requeueAfter, next.requeueAfter)
		if err != nil || next.stop {
			return res, err
		}
	}
	return res, nil
}

// soonest is the shorter of two waits, where 0 means no wait.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
