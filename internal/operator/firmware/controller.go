package firmware

import (
	"context"
	"slices"
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/finalizers,verbs=update
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwaresettings;hostfirmwarecomponents,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwaresettings/status;hostfirmwarecomponents/status,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=firmwareschemas,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=metal3.io,resources=hostupdatepolicies,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controller returns a controller that runs the reconciler when cache or nodes report changes. The
// objects of a host have its name, so a change of an object requests a pass over the host of that
// name. The caller starts and stops the controller.
func (r *Reconciler) Controller(cache cache.Cache, nodes *nodecache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("firmware", options,
		source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, watch.Updates(watch.Annotated[*v1alpha1.BareMetalHost](v1alpha1.PausedAnnotation), watch.Facts(machineOf))),
		source.Kind(cache, &v1alpha1.HostFirmwareSettings{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareSettings]{}, watch.Updates[*v1alpha1.HostFirmwareSettings](watch.Generation, watch.Owners)),
		source.Kind(cache, &v1alpha1.HostFirmwareComponents{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareComponents]{}, watch.Updates(watch.Generation, watch.Owners, updatesChanged)),
		source.Kind(cache, &v1alpha1.HostUpdatePolicy{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostUpdatePolicy]{}, watch.Updates[*v1alpha1.HostUpdatePolicy](watch.Owners)),
		source.Kind(cache, &v1alpha1.FirmwareSchema{}, r.schemaChanges()),
		r.nodeChanges(nodes),
	)
}

// machine says which machine a host has, and whether the machine's firmware can be read.
type machine struct {
	node   string
	hasBMC bool
}

func machineOf(h *v1alpha1.BareMetalHost) machine {
	return machine{h.Status.Provisioning.ID, h.HasBMC()}
}

// updatesChanged reports whether the host controller has begun other updates.
func updatesChanged(a, b *v1alpha1.HostFirmwareComponents) bool {
	return !equality.Semantic.DeepEqual(a.Status.Updates, b.Status.Updates)
}

// schemaChanges requests a pass over the hosts that used a deleted schema.
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

// nodeChanges requests a pass over the hosts of changed nodes. This includes changes that the host
// controller of the same process caused or saw first.
func (r *Reconciler) nodeChanges(nodes *nodecache.Cache) source.Source {
	return source.Func(func(_ context.Context, queue requests) error {
		nodes.SubscribeToAll(func(changes []nodecache.Change) {
			for _, c := range changes {
				if name, ok := r.hostOf(c.Node.Mark); ok {
					queue.Add(ctrl.Request{NamespacedName: name})
				}
			}
		})
		return nil
	})
}

// hostOf returns the host that a mark of this cluster names, if the operator watches its namespace.
func (c Config) hostOf(mark provisioner.Mark) (types.NamespacedName, bool) {
	rest, ours := strings.CutPrefix(string(mark), c.Cluster+"/")
	namespace, name, _ := strings.Cut(rest, "/")
	watched := len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
	return types.NamespacedName{Namespace: namespace, Name: name}, ours && namespace != "" && name != "" && watched
}
