package firmware

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/finalizers,verbs=update
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwaresettings;hostfirmwarecomponents,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwaresettings/status;hostfirmwarecomponents/status,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=firmwareschemas,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hostupdatepolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controller returns the controller that runs the reconciler for changes in cache and in
// nodes. The objects of a host have its name, so each of them asks for a pass over the
// host of that name. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, nodes *nodecache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	c, err := controller.NewUnmanaged("firmware", options)
	if err != nil {
		return nil, err
	}
	for _, watched := range []source.Source{
		source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, updates(hostChanged)),
		source.Kind(cache, &v1alpha1.HostFirmwareSettings{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareSettings]{}, updates(settingsChanged)),
		source.Kind(cache, &v1alpha1.HostFirmwareComponents{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareComponents]{}, updates(componentsChanged)),
		source.Kind(cache, &v1alpha1.HostUpdatePolicy{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostUpdatePolicy]{}, updates(ownersChanged[*v1alpha1.HostUpdatePolicy])),
		source.Kind(cache, &v1alpha1.FirmwareSchema{}, r.schemaChanges()),
		r.nodeChanges(nodes),
	} {
		if err := c.Watch(watched); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// updates lets an update of an object ask for a pass only when it changed in what matters.
func updates[T client.Object](changed func(a, b T) bool) predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

func hostChanged(a, b *v1alpha1.BareMetalHost) bool {
	_, pausedBefore := a.Annotations[v1alpha1.PausedAnnotation]
	_, paused := b.Annotations[v1alpha1.PausedAnnotation]
	return a.Status.Provisioning.ID != b.Status.Provisioning.ID || a.HasBMC() != b.HasBMC() || pausedBefore != paused
}

func settingsChanged(a, b *v1alpha1.HostFirmwareSettings) bool {
	return a.Generation != b.Generation || ownersChanged(a, b)
}

// componentsChanged also sees updates that the host controller has begun.
func componentsChanged(a, b *v1alpha1.HostFirmwareComponents) bool {
	return a.Generation != b.Generation || ownersChanged(a, b) || !equality.Semantic.DeepEqual(a.Status.Updates, b.Status.Updates)
}

func ownersChanged[T client.Object](a, b T) bool {
	return !equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// schemaChanges asks for a pass over the hosts that used a schema which is gone.
func (r *Reconciler) schemaChanges() handler.TypedEventHandler[*v1alpha1.FirmwareSchema, ctrl.Request] {
	return handler.TypedFuncs[*v1alpha1.FirmwareSchema, ctrl.Request]{
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*v1alpha1.FirmwareSchema], queue requests) {
			var all v1alpha1.HostFirmwareSettingsList
			if err := r.Client.List(ctx, &all, client.InNamespace(e.Object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
				log.FromContext(ctx).Error(err, "Hosts of a deleted schema could not be listed")
				return
			}
			for i := range all.Items {
				if used := all.Items[i].Status.FirmwareSchema; used != nil && used.Name == e.Object.Name {
					queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
				}
			}
		},
	}
}

// nodeChanges asks for a pass over the hosts of nodes that changed.
func (r *Reconciler) nodeChanges(nodes *nodecache.Cache) source.Source {
	return source.Func(func(_ context.Context, queue requests) error {
		nodes.Subscribe(func(changes []nodecache.Change) {
			for _, c := range changes {
				if name, ok := hostOf(r.Cluster, c.Node.Mark); ok {
					queue.Add(ctrl.Request{NamespacedName: name})
				}
			}
		})
		return nil
	})
}

// hostOf is the host in a mark of this cluster.
func hostOf(cluster string, mark provisioner.Mark) (types.NamespacedName, bool) {
	rest, ours := strings.CutPrefix(string(mark), cluster+"/")
	namespace, name, _ := strings.Cut(rest, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ours && namespace != "" && name != ""
}
