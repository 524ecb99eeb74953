package capacity

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts;hardwaredata,verbs=get;list;watch

// joinDelay is how long a pass waits after a change, so that it covers the changes that follow. A
// pass reads all hosts of a namespace, and the hosts of a rack that is powered on change one
// after the other.
const joinDelay = 5 * time.Second

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("capacity", options,
		source.Kind(cache, &v1beta2.Metal3MachineTemplate{}, watch.Namespace[*v1beta2.Metal3MachineTemplate](joinDelay), watch.Updates(templateChanged)),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, watch.Namespace[*v1alpha1.BareMetalHost](joinDelay), watch.Updates(hostChanged)),
		source.Kind(cache, &v1alpha1.HardwareData{}, watch.Namespace[*v1alpha1.HardwareData](joinDelay), watch.Updates(watch.Facts(alone))),
	)
}

// templateChanged reports whether an update changed which hosts a template selects, whether the
// controller writes the template, or what its status tells.
func templateChanged(a, b *v1beta2.Metal3MachineTemplate) bool {
	return watch.Generation(a, b) || watch.Labels(a, b) || watch.Annotated[*v1beta2.Metal3MachineTemplate](clusterv1.PausedAnnotation)(a, b) ||
		!equality.Semantic.DeepEqual(a.Status, b.Status)
}

// hostChanged reports whether an update changed which templates a host counts for.
func hostChanged(a, b *v1alpha1.BareMetalHost) bool {
	return watch.Labels(a, b) || (eligible.Withdrawn(a) == "") != (eligible.Withdrawn(b) == "")
}

// alone returns what the hardware of a single host tells.
func alone(data *v1alpha1.HardwareData) least {
	var l least
	if data.Spec.HardwareDetails != nil {
		l.add(data.Spec.HardwareDetails)
	}
	return l
}
