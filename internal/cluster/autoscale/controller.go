package autoscale

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/eligible"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinesets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments/status;machinesets/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3machines;metal3machinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts;hardwaredata;hardwareclassifications,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// joinDelay is how long a pass waits after a change, so that it covers the changes that follow.
const joinDelay = 100 * time.Millisecond

// Controller returns the controller that runs the reconciler for changes in cache. The caller
// starts and stops it. It watches KubeadmControlPlanes only if the API server knows this kind when
// Controller is called.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	_, err := r.Client.RESTMapper().RESTMapping(controlPlaneKind.GroupKind(), controlPlaneKind.Version)
	switch {
	case err == nil:
		r.controlPlanes = cache
	case !meta.IsNoMatchError(err):
		return nil, fmt.Errorf("ask whether the cluster has %s: %w", controlPlaneKind.GroupKind(), err)
	}
	sources := []source.Source{
		watched(cache, &v1alpha1.BareMetalHost{}, hostChanged),
		watched(cache, &v1alpha1.HardwareData{}, watch.Generation),
		watched(cache, &v1alpha1.HardwareClassification{}, specChanged),
		watched(cache, &clusterv1.MachineDeployment{}, deploymentChanged),
		watched(cache, &clusterv1.MachineSet{}, specChanged),
		watched(cache, &clusterv1.Machine{}, specChanged),
		watched(cache, &clusterv1.Cluster{}, specChanged),
		watched(cache, &v1beta2.Metal3MachineTemplate{}, specChanged),
		watched(cache, &v1beta2.Metal3Machine{}, specChanged),
	}
	if r.controlPlanes != nil {
		sources = append(sources, watched(cache, newControlPlane(), specChanged))
	}
	options.Reconciler = r
	return watch.Controller("autoscale", options, sources...)
}

// watched returns a source that asks for a pass over the namespace of an object when the object is
// created or deleted, or when changed reports a change.
func watched[T client.Object](cache cache.Cache, obj T, changed func(a, b T) bool) source.Source {
	return source.Kind(cache, obj, watch.Namespace[T](joinDelay), watch.Updates(changed))
}

// specChanged reports whether an update changed the spec, labels, annotations or owners of an
// object, or began its deletion.
func specChanged[T client.Object](a, b T) bool {
	return watch.Generation(a, b) || watch.Deletion(a, b) || watch.Annotations(a, b) || watch.Labels(a, b) || watch.Owners(a, b)
}

// deploymentChanged reports what specChanged reports, and also whether a rollout began or ended.
func deploymentChanged(a, b *clusterv1.MachineDeployment) bool {
	return specChanged(a, b) || isRolling(a) != isRolling(b)
}

// hostChanged reports whether an update changed what decides whether a host is counted, and for
// which set.
func hostChanged(a, b *v1alpha1.BareMetalHost) bool {
	return eligible.Unusable(a) != eligible.Unusable(b) || eligible.Withdrawn(a) != eligible.Withdrawn(b) ||
		a.Spec.InspectionMode != b.Spec.InspectionMode || !equality.Semantic.DeepEqual(a.Spec.ConsumerRef, b.Spec.ConsumerRef) ||
		watch.Labels(a, b) || a.Annotations[v1beta2.ConsumerHostUIDAnnotation] != b.Annotations[v1beta2.ConsumerHostUIDAnnotation]
}
