// Package autoscale makes the size of MachineDeployments and MachineSets follow the number of hosts
// that their machines can use, where the annotation metal3.io/autoscale-to-hosts asks for it.
//
// A pass covers a whole namespace, because each host is counted for one set only. It reads the
// namespace (read.go), checks what each set asks for (set.go), counts hosts, decides on the size
// (size.go) and on the Machines that go first (machines.go), and writes what differs. What a later
// pass needs to know is in an annotation of the set, so a pass can be lost at any point.
package autoscale

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// Config is what the reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server.
	Client client.Client
	// Live reads from the API server. It is asked before a set becomes smaller.
	Live client.Reader
	// Recorder makes events.
	Recorder events.EventRecorder
	// Now is the time.
	Now func() time.Time
	// Filter selects the sets that the controller changes. Hosts are counted for the other sets,
	// too, because those sets get hosts as well.
	Filter related.Filter
}

// Reconciler changes the sizes of sets.
type Reconciler struct {
	Config
	// controlPlanes reads KubeadmControlPlanes from the cache; nil where the cluster has none.
	controlPlanes client.Reader
}

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{Config: config} }

// Reconcile handles a namespace. The request has no name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cached, err := r.read(ctx, r.Client, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := pass{Reconciler: r, namespace: req.Namespace, cached: r.decide(cached)}
	var errs []error
	for _, one := range cached.sets {
		if !r.Filter.Allows(one) {
			continue
		}
		switch err := p.apply(ctx, one); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			p.again(requeue.Soon) // it changed meanwhile
		case err != nil:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.soonest}, nil
}

// outcome is what was decided about a set.
type outcome struct {
	follows  bool
	refused  *refusal
	decision decision // of a set that follows hosts and is not refused
	machines []machine
}

// decide returns what to do with each set of a namespace, by the key of the set.
func (r *Reconciler) decide(s *snapshot) map[string]outcome {
	refused := map[*set]*refusal{}
	for _, one := range s.sets {
		if one.follows() {
			refused[one] = one.check()
		}
	}
	counted := s.count(refused)
	outcomes := map[string]outcome{}
	for _, one := range s.sets {
		o := outcome{follows: one.follows(), refused: refused[one], machines: s.machines[one.GetUID()]}
		if o.follows && o.refused == nil {
			f := counted[one]
			f.now, f.falling = r.Now(), one.falling()
			o.decision = size(f)
		}
		outcomes[one.key()] = o
	}
	return outcomes
}
