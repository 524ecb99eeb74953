// Package remediation is the controller of Metal3Remediation. It recovers the machine that a
// MachineHealthCheck has found unhealthy, a limited number of times, and then has the owner of the
// Machine replace it.
//
// With strategy Reboot an annotation of the remediation's own holds the host off. When the host is
// proven to be off for this very annotation, and not before, the Node is put out of service. In
// clusters that do not know the taint, the Node is deleted instead. When pods and volumes are gone,
// the host is powered on again. With strategy Annotation the Machine gets the annotation for
// recovery, which package fencing acts on.
//
// A pass reads everything anew (read.go, facts.go), decides (next.go) and makes at most one write
// (table.go, effects.go). So an interruption at any point is like a pause: the next pass goes on
// from what it sees. The health check takes a remediation back by deleting it. Then everything that
// the remediation has set is removed, however far it was.
package remediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// workloads reaches workload clusters.
type workloads interface {
	// Client returns a client that reads without a cache.
	Client(ctx context.Context, cluster types.NamespacedName) (client.Client, error)
	// Version returns the version of the API server.
	Version(ctx context.Context, cluster types.NamespacedName) (*version.Version, error)
}

// guard keeps the control planes of clusters from losing their majority.
type guard interface {
	// Endangered says why the control plane would lose its majority without this Machine, or is
	// empty. lasting means that the other machines are too few, even if all of them are ready.
	Endangered(ctx context.Context, machine *clusterv1.Machine) (why string, lasting bool, err error)
	// Hold calls set, which holds the host of a Machine off. If the control plane would lose its
	// majority by that, Hold returns why and does not call set.
	Hold(ctx context.Context, machine *clusterv1.Machine, set func() error) (why string, err error)
}

// Config is what a reconciler depends on.
type Config struct {
	// Client writes to the API server. It reads from the shared cache which objects a change
	// concerns.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Workload reaches the clusters whose Nodes are remediated. The scheme of its clients
	// needs core/v1 and storage.k8s.io/v1.
	Workload workloads
	// FindNode finds the Node of a Machine, or returns nil when there is none.
	FindNode func(ctx context.Context, c client.Client, machine *clusterv1.Machine, providerIDs ...string) (*corev1.Node, error)
	// ProvenOff returns nil if the host is proven to be off for an annotation that holds it off,
	// and since that annotation. Otherwise the error says why not.
	ProvenOff func(h *v1alpha1.BareMetalHost, key, value string) error
	// DoubtNode says why a Node that was found may belong to another machine than the one on the
	// host, or is empty.
	DoubtNode func(ctx context.Context, live client.Reader, machine *clusterv1.Machine, h *v1alpha1.BareMetalHost, node *corev1.Node) (string, error)
	// Guard is asked before the remediation holds a host off that it does not hold off already.
	Guard guard
	// Recorder publishes events.
	Recorder events.EventRecorder
	Metrics  *Metrics
	// Now is the clock.
	Now func() time.Time
	// Filter says which Metal3Remediations the controller works on: those that have the label, and
	// those whose Machine has it, because a Metal3RemediationTemplate has no labels for the
	// remediations made from it. If a remediation has no label and its Machine is gone, it is
	// undone.
	Filter related.Filter
}

// Reconciler remediates machines.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Times between two passes that wait: workloadPoll for what no watch shows, poll for what a watch
// shows.
const (
	workloadPoll = 10 * time.Second
	poll         = time.Minute
)

// Reconcile makes one step of one remediation.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var m v1beta2.Metal3Remediation
	if err := r.Live.Get(ctx, req.NamespacedName, &m); err != nil {
		if apierrors.IsNotFound(err) {
			r.Metrics.showStuck(req.NamespacedName, false)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read %s: %w", req, err)
	}
	allowed, err := r.allows(ctx, &m)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !allowed {
		r.Metrics.showStuck(req.NamespacedName, false)
		return r.label(ctx, &m)
	}
	s, err := r.read(ctx, &m)
	if err != nil {
		return ctrl.Result{}, err
	}
	a := next(s.facts)
	progress := progressOf(s, a)
	told, err := r.show(ctx, s, progress)
	if err == nil {
		r.Metrics.showStuck(req.NamespacedName, isStuck(&m))
		err = r.do(ctx, s, a)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil // somebody else was first
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("remediate %s: %w", req, err)
	}
	r.Metrics.count(s, a)
	r.publish(s, a)
	if told {
		r.publishProgress(s, a, progress)
	}
	return ctrl.Result{RequeueAfter: pause(s, a)}, nil
}

// allows reports whether the controller works on a remediation. It works on those with the label
// that the filter wants. It also works on those without a label that have the finalizer and whose
// Machine is gone: nobody else would remove what they have set, and nothing else can be done for
// them, so several operators may do it.
func (r *Reconciler) allows(ctx context.Context, m *v1beta2.Metal3Remediation) (bool, error) {
	if r.Filter.Allows(m) {
		return true, nil
	}
	if _, labelled := m.Labels[clusterv1.WatchLabel]; labelled || !controllerutil.ContainsFinalizer(m, v1beta2.RemediationFinalizer) || !hasMachine(m) {
		return false, nil
	}
	machine, err := related.Machine(ctx, r.Live, m)
	if err != nil {
		return false, fmt.Errorf("read the Machine of Metal3Remediation %s/%s: %w", m.Namespace, m.Name, err)
	}
	return machine == nil, nil
}

// label copies the label that the filter wants from the Machine to a remediation without it, before
// anything else is done. From then on the controller works on the remediation to its end, whether
// the Machine is there or not.
func (r *Reconciler) label(ctx context.Context, m *v1beta2.Metal3Remediation) (ctrl.Result, error) {
	if _, other := m.Labels[clusterv1.WatchLabel]; other {
		return ctrl.Result{}, nil
	}
	machine, err := related.Machine(ctx, r.Client, m)
	if err != nil || machine == nil || !r.Filter.Allows(machine) {
		return ctrl.Result{}, err
	}
	before := m.DeepCopy()
	related.CarryFilter(m, machine)
	err = r.Client.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("label Metal3Remediation %s/%s: %w", m.Namespace, m.Name, err)
	}
	return ctrl.Result{RequeueAfter: requeue.Soon}, nil
}

// pause returns the time until the next pass; 0 means that the next pass comes with the next
// change.
func pause(s *scope, a action) time.Duration {
	row := actions[a]
	switch {
	case row.pause != nil:
		return row.pause(s)
	case row.do != nil:
		return requeue.Soon
	default:
		return watchedPause(s)
	}
}

func noPause(*scope) time.Duration { return 0 }

func nodePause(s *scope) time.Duration {
	if s.phase == v1beta2.RemediationRunning {
		return workloadPause(s)
	}
	return watchedPause(s)
}

func workloadPause(s *scope) time.Duration {
	return requeue.Spread(workloadPoll, workloadPoll/4, s.remediation.Name, 0)
}

func watchedPause(s *scope) time.Duration {
	return requeue.Soonest(requeue.Spread(poll, poll/4, s.remediation.Name, 0), s.untilExpiry())
}

// untilExpiry returns the time until the timeout is over, or 0 if the timeout does not run.
func (s *scope) untilExpiry() time.Duration {
	at := s.remediation.Status.ReleasedAt
	if at == nil {
		at = s.blockedSince()
	}
	if at == nil || s.isOver(at) {
		return 0
	}
	return at.Add(s.timeout).Sub(s.now)
}
