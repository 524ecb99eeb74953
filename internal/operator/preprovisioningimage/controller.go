package preprovisioningimage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// +kubebuilder:rbac:groups=metal3.io,resources=preprovisioningimages,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=metal3.io,resources=preprovisioningimages/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch

// secretField is the index of images by the Secret that has their network configuration.
const secretField = "spec.networkDataName"

// IndexFields registers the index that the controller needs.
func IndexFields(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.PreprovisioningImage{}, secretField, func(obj client.Object) []string {
		if image, ok := obj.(*v1alpha1.PreprovisioningImage); ok && image.Spec.NetworkDataName != "" {
			return []string{image.Spec.NetworkDataName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index PreprovisioningImages by %s: %w", secretField, err)
	}
	return nil
}

// Controller returns a controller that runs the reconciler when cache reports changes. The caller
// starts and stops it.
func (r *Reconciler) Controller(cache cache.Cache, options controller.Options) (controller.Controller, error) {
	options.Reconciler = r
	return watch.Controller("preprovisioningimage", options,
		source.Kind(cache, &v1alpha1.PreprovisioningImage{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.PreprovisioningImage]{}),
		watch.Secrets(cache, r.imagesWith),
	)
}

// imagesWith returns the requests for the images whose network configuration is in a Secret.
func (r *Reconciler) imagesWith(ctx context.Context, secret *metav1.PartialObjectMetadata) []ctrl.Request {
	var images v1alpha1.PreprovisioningImageList
	err := r.Client.List(ctx, &images, client.InNamespace(secret.Namespace), client.MatchingFields{secretField: secret.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Images of a changed Secret could not be listed")
		return nil
	}
	requests := make([]ctrl.Request, len(images.Items))
	for i := range images.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&images.Items[i])
	}
	return requests
}
