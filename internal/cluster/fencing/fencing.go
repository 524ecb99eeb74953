// Package fencing recovers Machines that have the annotation host.metal3.io/external-remediation:
// it powers the host off, deletes the Node when the host is proven to be off, and powers the host
// on again.
//
// All state is in the objects. Each pass reads them from the API servers and makes at most one
// write. So a pass that is lost, or made twice, changes nothing. decide.go makes the decision,
// without side effects, by the truth table in table.go. effects.go makes the writes. A Node is
// never deleted without the proof that the machine that it stands for is off (ProvenOff).
package fencing

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// Defaults of a Config.
const (
	DefaultBudget      = 1
	DefaultNodeTimeout = 20 * time.Minute
)

// workloads makes clients of workload clusters, which read without a cache.
type workloads interface {
	Client(ctx context.Context, cluster types.NamespacedName) (client.Client, error)
}

// Config is what a reconciler needs.
type Config struct {
	// Client writes, and reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Workloads reach the API servers with the Nodes.
	Workloads workloads
	// FindNode finds the Node of a Machine by the name in the status of the Machine, by the
	// provider ID of the Machine, or by one of the provider IDs given. It returns nil and no error
	// if there is no Node. A Node with the provider ID of another machine does not count.
	FindNode findNode
	// Guard keeps control planes from losing their majority. Everything that holds hosts off shares
	// it.
	Guard    *Guard
	Recorder events.EventRecorder
	Metrics  *Metrics
	Now      func() time.Time

	// Budget is how many hosts of a cluster may be fenced at once. 0 means DefaultBudget.
	Budget int
	// NodeTimeout is how long health checks stay suspended for a Node to come back after its
	// machine may be powered on. 0 means DefaultNodeTimeout.
	NodeTimeout time.Duration
	// ExtraActions switches on what goes beyond the truth table of the specification.
	ExtraActions bool
	// Filter says which Machines the controller works on.
	Filter related.Filter
}

// Reconciler recovers Machines.
type Reconciler struct {
	Config

	told memory
}

// New returns a reconciler.
func New(config Config) *Reconciler {
	if config.Budget == 0 {
		config.Budget = DefaultBudget
	}
	if config.NodeTimeout == 0 {
		config.NodeTimeout = DefaultNodeTimeout
	}
	return &Reconciler{Config: config, told: memory{reasons: map[types.NamespacedName]string{}}}
}

func (r *Reconciler) limits() limits {
	return limits{budget: r.Budget, nodeTimeout: r.NodeTimeout, extra: r.ExtraActions}
}

// pass is what one pass has read, and what it needs to write.
type pass struct {
	facts

	m3m *v1beta2.Metal3Machine
	// excluded says that the filter excludes the Machine. Nothing else was read then.
	excluded bool
	// workload is nil when the workload cluster was not needed or cannot be reached.
	workload client.Client
}

// Reconcile makes one pass over a Machine, which may be gone.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p, err := r.read(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read what belongs to Machine %s: %w", request.NamespacedName, err)
	}
	if p.machine == nil || !isConcerned(p.machine) || p.excluded {
		r.told.forget(request.NamespacedName)
	}
	if p.excluded {
		r.Metrics.showStuck(request.NamespacedName, false)
		return ctrl.Result{}, nil
	}
	d := decide(p.facts, r.limits())
	r.Metrics.showStuck(request.NamespacedName, d.isStuckBy(p.shown))
	after := d.after
	if d.do != doNothing {
		err, after = r.effect(ctx, p, d.do), requeue.Soon
	} else {
		err = r.show(ctx, p, d)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil // somebody else was first: read again
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("%s for Machine %s: %w", d.do, request.NamespacedName, err)
	default:
		return ctrl.Result{RequeueAfter: after}, nil
	}
}

// read reads what belongs to a Machine from the API server. The cache only serves to find the hosts
// with orphaned holds, which are then read again.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*pass, error) {
	p := &pass{facts: facts{now: r.Now(), machine: &clusterv1.Machine{}}}
	err := r.Live.Get(ctx, key, p.machine)
	if apierrors.IsNotFound(err) {
		p.machine = nil
		p.stray, err = r.strayHold(ctx, key, nil)
	}
	if err != nil || p.machine == nil {
		return p, err
	}
	if p.excluded = !r.Filter.Allows(p.machine); p.excluded {
		return p, nil
	}
	cluster, err := related.ClusterOf(ctx, r.Live, p.machine)
	if err != nil {
		return nil, err
	}
	if p.m3m, err = related.Metal3Machine(ctx, r.Live, p.machine); err != nil {
		return nil, err
	}
	p.paused = related.IsPaused(cluster, p.machine)
	if p.m3m != nil {
		p.paused = p.paused || related.IsPaused(nil, p.m3m)
		if shown := meta.FindStatusCondition(p.m3m.Status.Conditions, v1beta2.RemediatingCondition); shown != nil {
			p.shown = shown.Reason
		}
		if p.host, err = related.Host(ctx, r.Live, p.m3m); err != nil {
			return nil, err
		}
	}
	if p.stray, err = r.strayHold(ctx, key, p.host); err != nil || p.host == nil {
		return p, err
	}
	return p, r.readCycle(ctx, p)
}

// readCycle reads what a step of the cycle depends on.
func (r *Reconciler) readCycle(ctx context.Context, p *pass) error {
	if !p.machine.DeletionTimestamp.IsZero() || p.paused {
		return nil
	}
	if needsNode(p.machine, p.host) {
		if err := r.readNode(ctx, p); err != nil {
			return err
		}
	}
	if !isRequested(p.machine) || isHeld(p.host) {
		return nil
	}
	return r.readOthers(ctx, &p.facts)
}

// readOthers reads whether the rest of the cluster lets the host be fenced: which hosts take up the
// budget, and whether the control plane needs the Machine.
func (r *Reconciler) readOthers(ctx context.Context, f *facts) error {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Live.List(ctx, &hosts, client.InNamespace(f.machine.Namespace)); err != nil {
		return fmt.Errorf("count the hosts that are being fenced: %w", err)
	}
	f.occupied = occupied(hosts.Items, f.machine.Spec.ClusterName, f.now)
	if !isControlPlane(f.machine) {
		return nil
	}
	members, err := r.Guard.members(ctx, f.machine)
	if err == nil {
		f.endangered, f.lasting = endangered(f.machine, members, hosts.Items)
	}
	return err
}

// readNode finds the Node, or notes why it is not known.
func (r *Reconciler) readNode(ctx context.Context, p *pass) error {
	cluster := types.NamespacedName{Namespace: p.machine.Namespace, Name: p.machine.Spec.ClusterName}
	c, err := r.Workloads.Client(ctx, cluster)
	if err != nil {
		p.unreachable = cut(err.Error())
		return nil
	}
	node, err := r.FindNode(ctx, c, p.machine, p.m3m.Spec.ProviderID)
	switch {
	case workload.IsAmbiguous(err):
		p.ambiguous = cut(err.Error())
		return nil
	case err != nil:
		p.unreachable = cut(fmt.Sprintf("find the Node of Machine %s: %v", p.machine.Name, err))
		return nil
	case node == nil:
		return nil
	}
	if p.ambiguous, err = DoubtNode(ctx, r.Live, p.machine, p.host, node); err == nil && p.ambiguous == "" {
		p.node, p.workload = node, c
	}
	return err
}

// strayHold returns a host, other than the one that the Machine has, with a hold for a Machine of
// this name. It returns nil if there is none. A paused host keeps its hold, because the host may be
// moving to another cluster.
func (r *Reconciler) strayHold(ctx context.Context, machine types.NamespacedName, own *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(machine.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range hosts.Items {
		if !isStray(&hosts.Items[i], machine, own) {
			continue
		}
		var h v1alpha1.BareMetalHost
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(&hosts.Items[i]), &h)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && isStray(&h, machine, own) {
			return &h, nil
		}
	}
	return nil, nil
}

func isStray(h *v1alpha1.BareMetalHost, machine types.NamespacedName, own *v1alpha1.BareMetalHost) bool {
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	held := holdOf(h)
	return held != nil && held.Machine.Name == machine.Name && !paused && (own == nil || own.UID != h.UID)
}
