package dataimage

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=dataimages,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=metal3.io,resources=dataimages/status,verbs=patch

// Controller returns a controller that runs the reconciler when cache reports changes. The caller
// starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("dataimage", options,
		source.Kind(cache, &v1alpha1.DataImage{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.DataImage]{}),
		source.Kind(cache, &v1alpha1.BareMetalHost{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.BareMetalHost]{}, relevant),
	)
}

// relevant keeps the changes of a host that decide depends on. A host has the name of its
// DataImage.
var relevant = watch.Updates(watch.Facts(factsOf))

// facts are what decide needs to know of a host.
type facts struct {
	paused, deleted, bmc bool
	operational          v1alpha1.OperationalStatus
	state                v1alpha1.ProvisioningState
}

func factsOf(h *v1alpha1.BareMetalHost) facts {
	return facts{
		paused: h.IsPaused(), deleted: !h.DeletionTimestamp.IsZero(), bmc: h.HasBMC(),
		operational: h.Status.OperationalStatus, state: h.Status.Provisioning.State,
	}
}
