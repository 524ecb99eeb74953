package classification

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwaredata,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwareclassifications,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=hardwareclassifications/status,verbs=patch

// countDelay is the wait between a change and the count, in which other changes join it.
const countDelay = time.Second

// queue has requests for hosts or namespaces.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Controllers returns the controllers that run the reconcilers when cache reports changes. The
// caller starts and stops them.
func (r *Reconcilers) Controllers(cache cache.Cache, options controller.Options) ([]controller.Controller, error) {
	// Each controller needs the other's queue, which exists only when the other has started.
	toHosts, toNamespaces := &inbox{}, &inbox{}
	r.namespaces.label = func(req ctrl.Request) { toHosts.add(req, 0) }
	r.hosts.wake = func(namespace string) { toNamespaces.add(inNamespace(namespace), countDelay) }
	options.Reconciler = r.hosts
	labels, err := watch.Controller("classification", options,
		source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, relabelled),
		source.Kind(cache, &v1alpha1.HardwareData{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.HardwareData]{}, otherHardware),
		toHosts.source(),
	)
	if err != nil {
		return nil, err
	}
	options.Reconciler = r.namespaces
	counting, err := watch.Controller("classification-namespace", options,
		source.Kind(cache, &v1alpha1.HardwareClassification{}, watch.Namespace[*v1alpha1.HardwareClassification](countDelay), otherProfile),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, watch.Namespace[*v1alpha1.BareMetalHost](countDelay), otherCount),
		source.Kind(cache, &v1alpha1.HardwareData{}, watch.Namespace[*v1alpha1.HardwareData](countDelay), watch.Updates[*v1alpha1.HardwareData]()),
		toNamespaces.source(),
	)
	return []controller.Controller{labels, counting}, err
}

// StripHardware keeps only the hardware that is compared in the cache, because all hardware of a
// host is many kilobytes.
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

// inNamespace returns the request for a namespace.
func inNamespace(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace}}
}

// relabelled keeps changes of a host's classification labels, whoever made them.
var relabelled = watch.Updates(oursChanged)

// otherCount keeps the changes of a host that change a count.
var otherCount = watch.Updates(watch.Deletion, oursChanged,
	watch.Facts(func(h *v1alpha1.BareMetalHost) v1alpha1.ErrorType { return h.Status.ErrorType }))

func oursChanged(a, b *v1alpha1.BareMetalHost) bool { return !maps.Equal(ours(a), ours(b)) }

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

var otherHardware = watch.Updates[*v1alpha1.HardwareData](watch.Generation)

// otherProfile keeps the changes of a profile that are not by this controller.
var otherProfile = watch.Updates[*v1alpha1.HardwareClassification](watch.Generation, watch.Labels)
