package classification

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwareclassifications,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwareclassifications/status,verbs=patch

// countDelay is the wait between a change and the count, in which other changes join it.
const countDelay = time.Second

// queue has requests for hosts or namespaces.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controllers returns the controllers that run the reconcilers for changes in cache. The
// caller starts and stops them.
func (r *Reconcilers) Controllers(cache cache.Cache, options controller.Options) ([]controller.Controller, error) {
	hostOptions, namespaceOptions := options, options
	hostOptions.Reconciler, namespaceOptions.Reconciler = r.hosts, r.namespaces
	labels, err := controller.NewUnmanaged("classification", hostOptions)
	if err != nil {
		return nil, err
	}
	counting, err := controller.NewUnmanaged("classification-namespace", namespaceOptions)
	if err != nil {
		return nil, err
	}
	// Each needs the queue of the other, which exists once it is started.
	toHosts, toNamespaces := &inbox{}, &inbox{}
	r.namespaces.label = func(req ctrl.Request) { toHosts.add(req, 0) }
	r.hosts.wake = func(namespace string) { toNamespaces.add(inNamespace(namespace), countDelay) }
	for _, watch := range []struct {
		by      controller.Controller
		sources []source.Source
	}{
		{labels, []source.Source{
			source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, relabelled),
			source.Kind(cache, &v1alpha1.HardwareData{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HardwareData]{}, otherHardware),
			toHosts.source(),
		}},
		{counting, []source.Source{
			source.Kind(cache, &v1alpha1.HardwareClassification{}, counted[*v1alpha1.HardwareClassification](), otherProfile),
			source.Kind(cache, &v1alpha1.BareMetalHost{}, counted[*v1alpha1.BareMetalHost](), otherCount),
			source.Kind(cache, &v1alpha1.HardwareData{}, counted[*v1alpha1.HardwareData](), predicate.TypedFuncs[*v1alpha1.HardwareData]{
				UpdateFunc: func(event.TypedUpdateEvent[*v1alpha1.HardwareData]) bool { return false },
			}),
			toNamespaces.source(),
		}},
	} {
		for _, s := range watch.sources {
			if err := watch.by.Watch(s); err != nil {
				return nil, err
			}
		}
	}
	return []controller.Controller{labels, counting}, nil
}

// StripHardware keeps in the cache what is compared: a host's hardware has many kilobytes.
func StripHardware(obj any) (any, error) {
	data, ok := obj.(*v1alpha1.HardwareData)
	if !ok {
		return obj, nil
	}
	data.ManagedFields = nil
	if d := data.Spec.HardwareDetails; d != nil {
		d.CPU.Flags, d.Accelerators = nil, nil
		for i := range d.NICs {
			nic := &d.NICs[i]
			*nic = v1alpha1.NIC{Name: nic.Name, Model: nic.Model, MAC: nic.MAC}
		}
		for i := range d.Storage {
			disk := &d.Storage[i]
			*disk = v1alpha1.Storage{Rotational: disk.Rotational, Type: disk.Type, SizeBytes: disk.SizeBytes, HCTL: disk.HCTL}
		}
	}
	return data, nil
}

// inNamespace is the request for a namespace.
func inNamespace(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}
}

// counted counts the namespace of an object that changed.
func counted[T client.Object]() handler.TypedEventHandler[T, ctrl.Request] {
	add := func(obj T, q queue) { q.AddAfter(inNamespace(obj.GetNamespace()), countDelay) }
	return handler.TypedFuncs[T, ctrl.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { add(e.Object, q) },
	}
}

// relabelled are changes of a host's labels by classifications, also by somebody else.
var relabelled = predicate.TypedFuncs[*v1alpha1.BareMetalHost]{
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.BareMetalHost]) bool {
		return !maps.Equal(ours(e.ObjectOld), ours(e.ObjectNew))
	},
}

// otherCount are changes of a host that change a count.
var otherCount = predicate.TypedFuncs[*v1alpha1.BareMetalHost]{
	UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.BareMetalHost]) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.Status.ErrorType != b.Status.ErrorType || a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
			!maps.Equal(ours(a), ours(b))
	},
}

func ours(h *v1alpha1.BareMetalHost) map[string]string {
	var found map[string]string
	for key, value := range h.Labels {
		if isOurs(key) {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return found
}

var otherHardware = predicate.TypedGenerationChangedPredicate[*v1alpha1.HardwareData]{}

// otherProfile are changes of a profile by others than this controller.
var otherProfile = predicate.Or[*v1alpha1.HardwareClassification](
	predicate.TypedGenerationChangedPredicate[*v1alpha1.HardwareClassification]{},
	predicate.TypedLabelChangedPredicate[*v1alpha1.HardwareClassification]{},
)
