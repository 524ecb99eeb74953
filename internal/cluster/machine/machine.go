// Package machine gives Metal3Machines their hosts: it chooses a host, claims it, has the image
// deployed on it, tells Cluster API when that is done, and releases the host when the machine is
// deleted.
//
// A claim is two writes: the machine's annotation names the host, and then the host's
// spec.consumerRef names the machine. The second write contains the version of the host that was
// read, so one of several machines wins. The others drop their annotations and choose again. If a
// pass is interrupted between the writes, the next pass goes on from what the two objects say.
//
// The consumerRef has the machine's UID, so a machine that is created again under the name of an
// earlier one does not get the earlier machine's host. Objects that clusterctl moves get other
// UIDs. Therefore an annotation says for which host object the reference was written. In any other
// host object the name counts instead, for a machine that names the host. The controller never
// changes the consumerRef of anybody else. Decisions (choose.go, claim.go, specify.go, release.go)
// are functions without side effects; the functions that write are in the same files.
package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/cluster/workload"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// poll is the longest wait for a change that is also watched.
const poll = 30 * time.Second

// Reuse decides which hosts are kept for the machines of an owner.
type Reuse interface {
	// Reserve decides whether the host of a deleted machine is reserved.
	Reserve(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) (reuse.Reservation, error)
	// Preference decides which hosts a new machine may take; hosts are those of its namespace.
	Preference(ctx context.Context, machine *clusterv1.Machine, m *v1beta2.Metal3Machine, hosts []v1alpha1.BareMetalHost) (reuse.Preference, error)
}

// Nodes brings the Node of a machine in line with the machine and its host.
type Nodes interface {
	// Sync returns what it found, even together with an error.
	Sync(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine, m *v1beta2.Metal3Machine,
		h *v1alpha1.BareMetalHost, infrastructure *v1beta2.Metal3Cluster) (workload.Result, error)
}

// Config is what the controller needs. All fields but Nodes, Metrics and Filter are required.
type Config struct {
	// Client writes, and reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder
	Now      func() time.Time
	Reuse    Reuse
	// Nodes is nil where no workload clusters can be reached.
	Nodes   Nodes
	Metrics *Metrics
	// FastTrack leaves a released host powered on if it is cleaned, so that its ramdisk is ready
	// for the next machine.
	FastTrack bool
	// Filter selects the Metal3Machines that the controller works on.
	Filter related.Filter
}

// Reconciler is the controller of Metal3Machines.
type Reconciler struct{ Config }

// New returns the controller of Metal3Machines.
func New(config Config) *Reconciler { return &Reconciler{config} }

// pass is one pass over a machine.
type pass struct {
	*Reconciler

	m *v1beta2.Metal3Machine
	// stored is the status as the API server has it.
	stored v1beta2.Metal3MachineStatus
	// These are nil when they do not exist.
	machine        *clusterv1.Machine
	cluster        *clusterv1.Cluster
	infrastructure *v1beta2.Metal3Cluster
	// skipped is a sentence that says why the template's nodeReuse has no effect, or empty.
	skipped string
	// ready and why are what the condition Ready becomes.
	ready bool
	why   reason
	// gone says that the last finalizer is removed: there is no status to write.
	gone bool
}

// reason is the reason and the message of a condition.
type reason struct{ reason, message string }

// Reconcile makes one pass over a machine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var m v1beta2.Metal3Machine
	if err := r.Client.Get(ctx, req.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := m.Annotations[v1alpha1.DeletedForMoveAnnotation]; moved || !r.Filter.Allows(&m) {
		return ctrl.Result{}, nil
	}
	p := &pass{Reconciler: r, m: &m, stored: *m.Status.DeepCopy(), why: reason{v1beta2.NotReadyReason, ""}}
	result, err := p.run(ctx)
	if err != nil {
		p.interrupted(err)
	}
	if !p.gone {
		if e := p.writeStatus(ctx); err == nil {
			err = e
		}
	}
	if apierrors.IsConflict(err) { // an object has changed since it was read
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

func (p *pass) run(ctx context.Context) (ctrl.Result, error) {
	if err := p.readOwners(ctx); err != nil {
		return ctrl.Result{}, err
	}
	paused := related.IsPaused(p.cluster, p.m)
	p.setPaused(paused)
	switch {
	case paused:
		return p.pauseHost(ctx)
	case !p.m.DeletionTimestamp.IsZero():
		return p.delete(ctx)
	default:
		return p.provide(ctx)
	}
}

// readOwners reads the Machine, the Cluster and the Metal3Cluster of the machine. If the Machine is
// gone, a label names the Cluster.
func (p *pass) readOwners(ctx context.Context) error {
	var err error
	if p.machine, err = related.Machine(ctx, p.Client, p.m); err != nil {
		return fmt.Errorf("read the Machine that owns Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	named := p.machine
	if named == nil {
		named = &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: p.m.Namespace}}
		named.Spec.ClusterName = p.m.Labels[clusterv1.ClusterNameLabel]
	}
	if p.cluster, err = related.ClusterOf(ctx, p.Client, named); err != nil {
		return fmt.Errorf("read the Cluster of Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	if p.cluster == nil || p.cluster.Spec.InfrastructureRef.Name == "" {
		return nil
	}
	infrastructure := &v1beta2.Metal3Cluster{}
	err = p.Client.Get(ctx, client.ObjectKey{Namespace: p.cluster.Namespace, Name: p.cluster.Spec.InfrastructureRef.Name}, infrastructure)
	if err == nil {
		p.infrastructure = infrastructure
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Metal3Cluster of Cluster %s/%s: %w", p.cluster.Namespace, p.cluster.Name, err)
	}
	return nil
}

// provide takes the machine as far as it can get: to a host of its own, and to a Node.
func (p *pass) provide(ctx context.Context) (ctrl.Result, error) {
	if err := p.copyCleaningMode(ctx, p.Client); err != nil {
		return ctrl.Result{}, err
	}
	h, result, err := p.associate(ctx)
	if h == nil || err != nil {
		return result, err
	}
	if h, err = p.keepHost(ctx, h); err != nil {
		return ctrl.Result{}, err
	}
	ready, err := p.data(ctx)
	if err != nil || !ready && p.m.Spec.ProviderID == "" { // a machine that runs has read its data
		return ctrl.Result{RequeueAfter: poll}, err
	}
	if p.m.Spec.ProviderID == "" && !isSpecified(h) && !h.Spec.ExternallyProvisioned {
		// What is deployed now would only have to be removed again.
		if p.machine != nil && !p.machine.DeletionTimestamp.IsZero() {
			p.why = deletingMachine(p.machine)
			return ctrl.Result{}, nil
		}
		if h, err = p.specify(ctx, h); h == nil || err != nil {
			return ctrl.Result{RequeueAfter: poll}, err
		}
	}
	return p.observe(ctx, h)
}

// gate returns why no host can be chosen yet, or an empty reason.
func gate(machine *clusterv1.Machine, cluster *clusterv1.Cluster, infrastructure *v1beta2.Metal3Cluster) reason {
	switch {
	case machine == nil:
		return reason{v1beta2.WaitingForMetal3MachineOwnerRefReason, "No Machine owns this Metal3Machine yet."}
	case !machine.DeletionTimestamp.IsZero(): // a reserved host is for the next Machine
		return deletingMachine(machine)
	case cluster == nil:
		return reason{v1beta2.WaitingForClusterInfrastructureReadyReason, fmt.Sprintf("Cluster %q of Machine %s does not exist.", machine.Spec.ClusterName, machine.Name)}
	case infrastructure == nil:
		return reason{v1beta2.WaitingForMetal3ClusterReason, fmt.Sprintf("Metal3Cluster %q, the infrastructure of Cluster %s, does not exist.", cluster.Spec.InfrastructureRef.Name, cluster.Name)}
	case cluster.Status.Initialization.InfrastructureProvisioned == nil || !*cluster.Status.Initialization.InfrastructureProvisioned:
		return reason{v1beta2.WaitingForClusterInfrastructureReadyReason, fmt.Sprintf("The infrastructure of Cluster %s is not provisioned; see Metal3Cluster %s.", cluster.Name, infrastructure.Name)}
	case bootstrapOf(machine) == nil:
		return reason{v1beta2.WaitingForBootstrapDataReason, fmt.Sprintf("Machine %s has no bootstrap data yet.", machine.Name)}
	}
	return reason{}
}

// deletingMachine returns why a machine gets nothing any more: its Machine is being deleted, and
// deletes it later.
func deletingMachine(machine *clusterv1.Machine) reason {
	return reason{v1beta2.DeletingReason, fmt.Sprintf("Machine %s is being deleted and needs no host.", machine.Name)}
}

// patchMachine changes metadata and spec of the machine, if there is something to change. The
// status in memory stays as it is.
func (p *pass) patchMachine(ctx context.Context, change func(*v1beta2.Metal3Machine)) error {
	before, after := p.m.DeepCopy(), p.m.DeepCopy()
	change(after)
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if err := p.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	p.m.ObjectMeta, p.m.Spec = after.ObjectMeta, after.Spec
	return nil
}

// patchHost changes a host, if there is something to change, and returns the host as it is then. It
// returns a conflict if somebody has changed the host since it was read.
func (p *pass) patchHost(ctx context.Context, h *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) (*v1alpha1.BareMetalHost, error) {
	after := h.DeepCopy()
	change(after)
	if equality.Semantic.DeepEqual(h, after) {
		return h, nil
	}
	if err := p.Client.Patch(ctx, after, client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("change host %s/%s for Metal3Machine %s: %w", h.Namespace, h.Name, p.m.Name, err)
	}
	return after, nil
}

// readHost reads a host from the API server; nil means that it does not exist.
func (p *pass) readHost(ctx context.Context, key types.NamespacedName) (*v1alpha1.BareMetalHost, error) {
	return get(ctx, p.Live, key)
}

func get(ctx context.Context, r client.Reader, key types.NamespacedName) (*v1alpha1.BareMetalHost, error) {
	h := &v1alpha1.BareMetalHost{}
	err := r.Get(ctx, key, h)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read host %s: %w", key, err)
	}
	return h, nil
}

// hosts returns the hosts of the machine's namespace. They are shared with the cache and must not
// be changed.
func (p *pass) hosts(ctx context.Context) ([]v1alpha1.BareMetalHost, error) {
	var list v1alpha1.BareMetalHostList
	if err := p.Client.List(ctx, &list, client.InNamespace(p.m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts of namespace %s: %w", p.m.Namespace, err)
	}
	return list.Items, nil
}

// claimed returns a copy of the host whose consumer is this very machine, or nil.
func (p *pass) claimed(hosts []v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
	for i := range hosts {
		if related.ConsumesByUID(p.m, &hosts[i]) {
			return hosts[i].DeepCopy()
		}
	}
	return nil
}

// Events of Metal3Machines.
const (
	eventHostClaimed      = "HostClaimed"
	eventClaimConflict    = "ClaimConflict"
	eventHostLost         = "HostLost"
	eventHostReserved     = "HostReserved"
	eventHostReleased     = "HostReleased"
	eventNodeReuseSkipped = "NodeReuseSkipped"

	actionClaim   = "Claim"
	actionRelease = "Release"
)

// event records an event about the machine and its host, which may be nil.
func (p *pass) event(h *v1alpha1.BareMetalHost, kind, name, action, format string, args ...any) {
	note := node.CutTextTo(fmt.Sprintf(format, args...), maxMessage)
	if h == nil { // not a nil pointer in an interface
		p.Recorder.Eventf(p.m, nil, kind, name, action, "%s", note)
		return
	}
	p.Recorder.Eventf(p.m, h, kind, name, action, "%s", note)
}

func (p *pass) tell(h *v1alpha1.BareMetalHost, name, action, format string, args ...any) {
	p.event(h, corev1.EventTypeNormal, name, action, format, args...)
}

func (p *pass) warn(h *v1alpha1.BareMetalHost, name, action, format string, args ...any) {
	p.event(h, corev1.EventTypeWarning, name, action, format, args...)
}
