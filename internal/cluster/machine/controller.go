package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
	"github.com/ingot-metal/ingot/internal/cluster/reuse"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters;metal3machinetemplates;metal3datas,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controller returns the controller that runs the reconciler for changes in cache, and for requests
// from other sources. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options, others ...source.Source) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("metal3machine", options, append([]source.Source{
		source.Kind(cache, &v1beta2.Metal3Machine{}, r.machineChanges()),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, r.hostChanges()),
		source.Kind(cache, &clusterv1.Machine{}, handler.TypedEnqueueRequestsFromMapFunc(ofMachine)),
		source.Kind(cache, &clusterv1.Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, c *clusterv1.Cluster) []ctrl.Request {
			return r.ofCluster(ctx, c.Namespace, c.Name)
		}), watch.Updates(watch.Generation, infrastructureProvisioned)),
		source.Kind(cache, &v1beta2.Metal3Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, c *v1beta2.Metal3Cluster) []ctrl.Request {
			return r.ofCluster(ctx, c.Namespace, c.Labels[clusterv1.ClusterNameLabel])
		}), watch.Updates[*v1beta2.Metal3Cluster](watch.Generation, watch.Annotations)),
		source.Kind(cache, &v1beta2.Metal3MachineTemplate{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofTemplate), watch.Updates[*v1beta2.Metal3MachineTemplate](watch.Generation)),
		source.Kind(cache, &v1beta2.Metal3DataClaim{}, handler.TypedEnqueueRequestsFromMapFunc(sameName[*v1beta2.Metal3DataClaim])),
		source.Kind(cache, &v1beta2.Metal3Data{}, handler.TypedEnqueueRequestsFromMapFunc(ofData)),
	}, others...)...)
}

// infrastructureProvisioned reports whether an update changed whether the infrastructure of a
// Cluster is ready.
func infrastructureProvisioned(a, b *clusterv1.Cluster) bool {
	return !equality.Semantic.DeepEqual(a.Status.Initialization.InfrastructureProvisioned, b.Status.Initialization.InfrastructureProvisioned)
}

// machineChanges asks for a pass over a machine that changes. When a machine is gone, it asks for
// passes over the machines that wait for a host.
func (r *Reconciler) machineChanges() handler.TypedEventHandler[*v1beta2.Metal3Machine, ctrl.Request] {
	return handler.TypedFuncs[*v1beta2.Metal3Machine, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1beta2.Metal3Machine], queue requests) {
			queue.Add(requestFor(e.Object))
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1beta2.Metal3Machine], queue requests) {
			queue.Add(requestFor(e.ObjectNew))
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1beta2.Metal3Machine], queue requests) {
			r.enqueueWaiting(ctx, e.Object.Namespace, queue)
		},
	}
}

// hostChanges asks for passes over the machines that a host matters to.
func (r *Reconciler) hostChanges() handler.TypedEventHandler[*v1alpha1.BareMetalHost, ctrl.Request] {
	return handler.TypedFuncs[*v1alpha1.BareMetalHost, ctrl.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*v1alpha1.BareMetalHost], queue requests) {
			r.enqueueConcerned(ctx, e.Object, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*v1alpha1.BareMetalHost], queue requests) {
			if !hostChanged(e.ObjectOld, e.ObjectNew) {
				return
			}
			if !equality.Semantic.DeepEqual(e.ObjectOld.Spec.ConsumerRef, e.ObjectNew.Spec.ConsumerRef) {
				r.enqueueConsumer(e.ObjectOld, queue)
			}
			r.enqueueConcerned(ctx, e.ObjectNew, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.BareMetalHost], queue requests) {
			r.enqueueConcerned(ctx, e.Object, queue)
		},
	}
}

// hostChanged reports whether an update changed something of a host that matters to a machine.
func hostChanged(a, b *v1alpha1.BareMetalHost) bool {
	reasonOf := func(h *v1alpha1.BareMetalHost) string {
		if c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.AvailableForProvisioningCondition); c != nil {
			return c.Reason
		}
		return ""
	}
	return watch.Generation(a, b) || watch.Deletion(a, b) || watch.Labels(a, b) || watch.Annotations(a, b) ||
		a.Status.Provisioning.State != b.Status.Provisioning.State || a.Status.ErrorMessage != b.Status.ErrorMessage ||
		a.Status.OperationalStatus != b.Status.OperationalStatus || a.Status.PoweredOn != b.Status.PoweredOn || reasonOf(a) != reasonOf(b)
}

// enqueueConcerned asks for a pass over the machine that is the consumer of a host. If there is
// none, it asks for passes over the machines that name the host and, if the host might be chosen,
// over the machines that wait for a host.
func (r *Reconciler) enqueueConcerned(ctx context.Context, h *v1alpha1.BareMetalHost, queue requests) {
	if r.enqueueConsumer(h, queue) {
		return
	}
	for _, m := range r.machines(ctx, h.Namespace) {
		key, chosen := related.HostName(m)
		if chosen && key.Name == h.Name || !chosen && (isFree(h) || reuse.IsReserved(h)) {
			queue.Add(requestFor(m))
		}
	}
}

// enqueueConsumer asks for a pass over the machine that is the consumer of a host, and reports
// whether there is one.
func (r *Reconciler) enqueueConsumer(h *v1alpha1.BareMetalHost, queue requests) bool {
	if h.Spec.ConsumerRef == nil {
		return false
	}
	named := &v1beta2.Metal3Machine{}
	named.Namespace, named.Name, named.UID = h.Namespace, h.Spec.ConsumerRef.Name, h.Spec.ConsumerRef.UID
	if !related.Consumes(named, h) {
		return false
	}
	queue.Add(requestFor(named))
	return true
}

// enqueueWaiting asks for passes over the machines of a namespace that have no host.
func (r *Reconciler) enqueueWaiting(ctx context.Context, namespace string, queue requests) {
	for _, m := range r.machines(ctx, namespace) {
		if _, chosen := related.HostName(m); !chosen {
			queue.Add(requestFor(m))
		}
	}
}

// machines returns the machines of a namespace that match the options. They are shared with the
// cache and must not be changed.
func (r *Reconciler) machines(ctx context.Context, namespace string, options ...client.ListOption) []*v1beta2.Metal3Machine {
	var list v1beta2.Metal3MachineList
	options = append(options, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err := r.Client.List(ctx, &list, options...); err != nil {
		log.FromContext(ctx).Error(err, "Metal3Machines could not be listed", "namespace", namespace)
	}
	all := make([]*v1beta2.Metal3Machine, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

func requestFor(obj client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
}

func requestsFor(all []*v1beta2.Metal3Machine) []ctrl.Request {
	asked := make([]ctrl.Request, len(all))
	for i := range all {
		asked[i] = requestFor(all[i])
	}
	return asked
}

func sameName[T client.Object](_ context.Context, obj T) []ctrl.Request {
	return []ctrl.Request{requestFor(obj)}
}

func ofMachine(_ context.Context, machine *clusterv1.Machine) []ctrl.Request {
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup != v1beta2.GroupVersion.Group || ref.Kind != "Metal3Machine" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}}}
}

func (r *Reconciler) ofCluster(ctx context.Context, namespace, name string) []ctrl.Request {
	if name == "" {
		return nil
	}
	return requestsFor(r.machines(ctx, namespace, client.MatchingLabels{clusterv1.ClusterNameLabel: name}))
}

func (r *Reconciler) ofTemplate(ctx context.Context, template *v1beta2.Metal3MachineTemplate) []ctrl.Request {
	var made []*v1beta2.Metal3Machine
	for _, m := range r.machines(ctx, template.Namespace) {
		if templateOf(m) == template.Name {
			made = append(made, m)
		}
	}
	return requestsFor(made)
}

func ofData(_ context.Context, data *v1beta2.Metal3Data) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: data.Namespace, Name: data.Spec.Claim.Name}}}
}
