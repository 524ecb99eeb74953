// Package dataimage is the controller of DataImage, except for the image itself. The host
// controller attaches and detaches the image, because that has to happen before the machine is
// powered on, and writes attachedImage, request and error. This package keeps the finalizer as long
// as the machine may have the image, and writes the condition Attached and lastReconciled.
package dataimage

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Config is what a reconciler depends on.
type Config struct {
	// Client reads from the shared cache and writes to the API server.
	Client client.Client
	// Now is the clock.
	Now func() time.Time
}

// Reconciler keeps DataImages in step with their hosts.
type Reconciler struct{ Config }

// New returns a reconciler.
func New(config Config) *Reconciler { return &Reconciler{config} }

// Reconcile handles one DataImage and the host of the same name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var d v1alpha1.DataImage
	if err := r.Client.Get(ctx, req.NamespacedName, &d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var found v1alpha1.BareMetalHost
	host := &found
	if err := r.Client.Get(ctx, req.NamespacedName, host); apierrors.IsNotFound(err) {
		host = nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read host %s: %w", req.Name, err)
	}
	outcome := decide(&d, host)
	err := r.write(ctx, &d, host, outcome)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// retry is the wait after somebody else wrote the object.
const retry = 20 * time.Millisecond

// write stores the outcome, each part only if it changed. The finalizer is removed only from the
// version of the object that the decision was about, because the host controller may request the
// image at the same moment.
func (r *Reconciler) write(ctx context.Context, d *v1alpha1.DataImage, host *v1alpha1.BareMetalHost, o outcome) error {
	before := d.DeepCopy()
	switch {
	case o.release:
		controllerutil.RemoveFinalizer(d, v1alpha1.DataImageFinalizer)
	case d.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(d, v1alpha1.DataImageFinalizer)
		if host != nil {
			if err := controllerutil.SetOwnerReference(host, d, r.Client.Scheme()); err != nil {
				return err
			}
		}
	}
	if !equality.Semantic.DeepEqual(before.ObjectMeta, d.ObjectMeta) {
		if err := r.Client.Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("write DataImage %s: %w", d.Name, err)
		}
	}
	if o.release {
		return nil
	}
	before = d.DeepCopy()
	now := metav1.NewTime(r.Now())
	o.condition.ObservedGeneration, o.condition.LastTransitionTime = d.Generation, now
	if !meta.SetStatusCondition(&d.Status.Conditions, o.condition) {
		return nil
	}
	d.Status.LastReconciled = &now
	if err := r.Client.Status().Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of DataImage %s: %w", d.Name, err)
	}
	return nil
}
