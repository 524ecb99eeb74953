package host

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch;reboot
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/status,verbs=get;patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts/finalizers,verbs=update
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwaresettings;hostfirmwarecomponents;hostupdatepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=hostfirmwarecomponents/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries,verbs=get
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhostdiscoveries/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=dataimages,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=dataimages/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=preprovisioningimages,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// IndexFields registers the indexes that the reconciler's client needs.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	for field, values := range map[string]client.IndexerFunc{
		nodeIDField: nodeIDOf, namedNodeField: namedNodeOf, accessField: namedSecretsOf, secretsField: allSecretsOf, unlinkedField: yes(isUnlinked), busyField: yes(isBusy), queuedField: yes(isQueued),
	} {
		if err := indexer.IndexField(ctx, &v1alpha1.BareMetalHost{}, field, values); err != nil {
			return fmt.Errorf("index hosts by %s: %w", field, err)
		}
	}
	return nil
}

// Controller returns the controller that runs the reconciler for changes in cache
// and in nodes. The caller starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, nodes *nodecache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	sources := []source.Source{
		source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, relevant),
		watch.Secrets(cache, r.hostsNaming),
		// These have the name of their host.
		source.Kind(cache, &v1alpha1.DataImage{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.DataImage]{}, watch.Updates[*v1alpha1.DataImage](watch.Generation)),
		source.Kind(cache, &v1alpha1.HostFirmwareSettings{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareSettings]{},
			changedUpdate(func(o *v1alpha1.HostFirmwareSettings) []metav1.Condition { return o.Status.Conditions })),
		source.Kind(cache, &v1alpha1.HostFirmwareComponents{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostFirmwareComponents]{},
			changedUpdate(func(o *v1alpha1.HostFirmwareComponents) []metav1.Condition { return o.Status.Conditions })),
		source.Kind(cache, &v1alpha1.HostUpdatePolicy{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HostUpdatePolicy]{}),
		r.nodeChanges(nodes),
	}
	if r.Capacity > 0 {
		sources = append(sources, source.Kind(cache, &v1alpha1.BareMetalHost{}, r.slots.nextInTurn()))
	}
	if r.PreprovisioningImages {
		sources = append(sources,
			source.Kind(cache, &v1alpha1.PreprovisioningImage{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PreprovisioningImage]{}))
	}
	return watch.Controller("host", options, sources...)
}

// changedUpdate triggers a reconciliation when the spec of an object changes, or when a controller
// has compared the object with the machine. A mere reading of the machine triggers none.
func changedUpdate[T client.Object](conditions func(T) []metav1.Condition) predicate.TypedPredicate[T] {
	return watch.Updates(watch.Generation, func(a, b T) bool { return !equality.Semantic.DeepEqual(conditions(a), conditions(b)) })
}

// relevant triggers a reconciliation when a person or another controller changed the host. A write
// of the status by this controller triggers none.
var relevant = watch.Updates(watch.Generation, watch.Deletion, watch.Annotations,
	watch.Facts(func(h *v1alpha1.BareMetalHost) int { return len(h.Finalizers) }))

// nodeChanges triggers a reconciliation of the hosts of nodes that changed. A node without a host
// may be the one that unlinked hosts wait for, so its change triggers those.
func (r *Reconciler) nodeChanges(nodes *nodecache.Cache) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		nodes.Subscribe(func(changes []nodecache.Change) {
			for _, request := range r.affected(ctx, changes) {
				queue.Add(request)
			}
		})
		return nil
	})
}

// unlinkedField is the index of hosts without a node. namedNodeField is the index of hosts whose
// status is still to be restored, by the node that the status annotation names. The second index
// says who waits for a node, not who has one: everybody who may write hosts may write that
// annotation.
const (
	unlinkedField  = "status.provisioning.unlinked"
	namedNodeField = "metadata.annotations.node"
)

func isUnlinked(h *v1alpha1.BareMetalHost) bool {
	return h.Status.Provisioning.ID == "" && namedNodeOf(h) == nil
}

// namedNodeOf returns the values of a host in the index namedNodeField.
func namedNodeOf(obj client.Object) []string {
	h, ok := obj.(*v1alpha1.BareMetalHost)
	if !ok || !isDeferred(h) {
		return nil
	}
	var named struct {
		Provisioning struct{ ID string }
	}
	if err := json.Unmarshal([]byte(h.Annotations[v1alpha1.StatusAnnotation]), &named); err != nil || named.Provisioning.ID == "" {
		return nil
	}
	return []string{named.Provisioning.ID}
}

// affected returns the requests for the hosts of nodes that changed. A change of a node that no
// host has concerns the hosts without a node.
func (r *Reconciler) affected(ctx context.Context, changes []nodecache.Change) []ctrl.Request {
	var requests []ctrl.Request
	unlinked := false
	for _, c := range changes {
		linked := append(r.hostsWith(ctx, nodeIDField, c.Node.ID), r.hostsWith(ctx, namedNodeField, c.Node.ID)...)
		requests = append(requests, linked...)
		unlinked = unlinked || len(linked) == 0
	}
	if unlinked {
		requests = append(requests, r.hostsWith(ctx, unlinkedField, indexed)...)
	}
	return requests
}

// hostsNaming returns the requests for the hosts that name a Secret, whether it exists or not.
func (r *Reconciler) hostsNaming(ctx context.Context, secret *metav1.PartialObjectMetadata) []ctrl.Request {
	return r.hostsWith(ctx, secretsField, secret.Name, client.InNamespace(secret.Namespace))
}

// hostsWith returns the requests for the hosts that an index has under a value.
func (r *Reconciler) hostsWith(ctx context.Context, field, value string, within ...client.ListOption) []ctrl.Request {
	if value == "" {
		return nil
	}
	var hosts v1alpha1.BareMetalHostList
	options := append(within, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy)
	if err := r.Client.List(ctx, &hosts, options...); err != nil {
		log.FromContext(ctx).Error(err, "Hosts of a changed node or Secret could not be listed")
		return nil
	}
	requests := make([]ctrl.Request, len(hosts.Items))
	for i := range hosts.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&hosts.Items[i])
	}
	return requests
}
