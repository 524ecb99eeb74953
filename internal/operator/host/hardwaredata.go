package host

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hardwareData reads and writes the HardwareData of hosts. It bypasses the cache: the
// objects are large and read a few times in the life of a host.
type hardwareData struct {
	client client.Client
	live   client.Reader
}

// read returns the details in a host's HardwareData, or nil.
func (d hardwareData) read(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.HardwareDetails, error) {
	var data v1alpha1.HardwareData
	err := d.live.Get(ctx, client.ObjectKeyFromObject(h), &data)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read hardware data: %w", err)
	}
	return data.Spec.HardwareDetails, nil
}

// write stores the details in the host's HardwareData. An existing object is
// patched in place, so that readers never see a gap.
func (d hardwareData) write(ctx context.Context, h *v1alpha1.BareMetalHost, details *v1alpha1.HardwareDetails) error {
	data := &v1alpha1.HardwareData{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: h.Name,
			OwnerReferences: []metav1.OwnerReference{ownerReference(h)},
			Finalizers:      []string{v1alpha1.HardwareDataFinalizer},
		},
		Spec: v1alpha1.HardwareDataSpec{HardwareDetails: details.DeepCopy()},
	}
	err := d.client.Create(ctx, data)
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create hardware data: %w", err)
	}
	var existing v1alpha1.HardwareData
	if err := d.live.Get(ctx, client.ObjectKeyFromObject(h), &existing); err != nil {
		return fmt.Errorf("read hardware data: %w", err)
	}
	before := existing.DeepCopy()
	// The name belongs to the host; the former owner of the object no longer exists.
	existing.OwnerReferences = []metav1.OwnerReference{ownerReference(h)}
	controllerutil.AddFinalizer(&existing, v1alpha1.HardwareDataFinalizer)
	existing.Spec.HardwareDetails = details.DeepCopy()
	if equality.Semantic.DeepEqual(before, &existing) {
		return nil
	}
	if err := d.client.Patch(ctx, &existing, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update hardware data: %w", err)
	}
	return nil
}

// release deletes the HardwareData of a deleted host.
func (d hardwareData) release(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	return releaseChild(ctx, d.live, d.client, h, &v1alpha1.HardwareData{}, v1alpha1.HardwareDataFinalizer)
}

// releaseChild deletes the object of a host that has the host's name, after it has removed the
// given finalizers of the operator from that object.
func releaseChild(ctx context.Context, live client.Reader, writes client.Client, h *v1alpha1.BareMetalHost, child client.Object, finalizers ...string) error {
	if err := live.Get(ctx, client.ObjectKeyFromObject(h), child); err != nil {
		return client.IgnoreNotFound(err)
	}
	before, _ := child.DeepCopyObject().(client.Object)
	removed := false
	for _, finalizer := range finalizers {
		removed = controllerutil.RemoveFinalizer(child, finalizer) || removed
	}
	if removed {
		if err := writes.Patch(ctx, child, client.MergeFrom(before)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	uid := child.GetUID()
	err := writes.Delete(ctx, child, client.Preconditions{UID: &uid})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it went meanwhile, or another object took its name
	}
	return err
}

func ownerReference(h *v1alpha1.BareMetalHost) metav1.OwnerReference {
	return *metav1.NewControllerRef(h, v1alpha1.GroupVersion.WithKind("BareMetalHost"))
}

// patchMeta writes what has changed in an object since before, if anything has. The API server
// refuses the write if somebody else has changed the object meanwhile.
func patchMeta(ctx context.Context, c client.Client, obj, before client.Object) error {
	if equality.Semantic.DeepEqual(before, obj) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("update %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}
