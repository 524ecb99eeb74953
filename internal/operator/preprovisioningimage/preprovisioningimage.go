// Package preprovisioningimage is an image controller that serves every PreprovisioningImage with
// the same images: an ISO image, or a kernel and an initial ramdisk. It builds nothing; the engine
// gives the ramdisk its network configuration. A site whose images differ by host runs its own
// controller instead.
package preprovisioningimage

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
	"github.com/ingot-metal/ingot/internal/operator/watch"
)

// Images are the URLs of the images that the controller serves. ISO or Ramdisk is set, or both.
// Without Kernel, the engine uses its own.
type Images struct{ ISO, Kernel, Ramdisk string }

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server. The cache needs the
	// index that IndexFields registers.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Images are the images to serve.
	Images Images
	// Now is the clock.
	Now func() time.Time
}

// Reconciler writes the status of PreprovisioningImages.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile serves one PreprovisioningImage.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var image v1alpha1.PreprovisioningImage
	if err := r.Client.Get(ctx, req.NamespacedName, &image); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wait, err := r.serve(ctx, &image)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: requeue.Soon}, nil
	}
	return ctrl.Result{RequeueAfter: wait}, client.IgnoreNotFound(err)
}

func (r *Reconciler) serve(ctx context.Context, image *v1alpha1.PreprovisioningImage) (time.Duration, error) {
	before := image.DeepCopy()
	deleted := !image.DeletionTimestamp.IsZero()
	finalize := controllerutil.AddFinalizer
	if deleted {
		finalize = controllerutil.RemoveFinalizer
	}
	if finalize(image, v1alpha1.PreprovisioningImageFinalizer) {
		if err := r.Client.Patch(ctx, image, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return 0, fmt.Errorf("write PreprovisioningImage %s: %w", image.Name, err)
		}
	}
	if deleted {
		return 0, nil
	}
	secret, err := r.networkData(ctx, image)
	if err != nil {
		return 0, err
	}
	before = image.DeepCopy()
	status, wait := decide(image, r.Images, secret, r.Now())
	if equality.Semantic.DeepEqual(before.Status, status) {
		return wait, nil
	}
	image.Status = status
	if err := r.Client.Status().Patch(ctx, image, client.MergeFrom(before)); err != nil {
		return 0, fmt.Errorf("write the status of PreprovisioningImage %s: %w", image.Name, err)
	}
	return wait, nil
}

// networkData returns name and version of the Secret with the network configuration, or nil if that
// Secret does not exist. It labels the Secret, so that earlier versions of the operator see changes
// of it.
func (r *Reconciler) networkData(ctx context.Context, image *v1alpha1.PreprovisioningImage) (*v1alpha1.SecretStatus, error) {
	name := image.Spec.NetworkDataName
	if name == "" {
		return &v1alpha1.SecretStatus{}, nil
	}
	secret := watch.SecretMetadata()
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: image.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	if secret.Labels[v1alpha1.SecretLabel] != v1alpha1.SecretLabelValue {
		before := secret.DeepCopy()
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.SecretLabel, v1alpha1.SecretLabelValue)
		if err := r.Client.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return nil, fmt.Errorf("label Secret %s: %w", name, err)
		}
	}
	return &v1alpha1.SecretStatus{Name: name, Version: secret.ResourceVersion}, nil
}
