package firmware

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// hostKind is the kind of the objects' owners.
const hostKind = "BareMetalHost"

// objects reads and writes objects that have the name of their host.
type objects struct {
	client client.Client
	live   client.Reader
}

// ensure brings the newest version of an object into obj, which holds the content of a new object.
// It creates the object, or reads the existing one and makes the host its owner.
func (o objects) ensure(ctx context.Context, obj client.Object, exists bool, host *v1alpha1.BareMetalHost) error {
	obj.SetNamespace(host.Namespace)
	obj.SetName(host.Name)
	if !exists {
		obj.SetOwnerReferences(ownedBy(nil, host))
		err := o.client.Create(ctx, obj)
		if !apierrors.IsAlreadyExists(err) {
			return describe(err, "create", obj)
		}
	}
	if err := o.live.Get(ctx, client.ObjectKeyFromObject(host), obj); err != nil {
		return describe(err, "read", obj)
	}
	return o.adopt(ctx, obj, host)
}

// adopt makes the host the owner of an object that was just read.
func (o objects) adopt(ctx context.Context, obj client.Object, host *v1alpha1.BareMetalHost) error {
	if !obj.GetDeletionTimestamp().IsZero() || isOwned(obj, host) {
		return nil
	}
	before, _ := obj.DeepCopyObject().(client.Object)
	obj.SetOwnerReferences(ownedBy(obj.GetOwnerReferences(), host))
	return describe(o.client.Patch(ctx, obj, locked(before)), "own", obj)
}

// writeStatus patches the differences in the status of an object. The API server refuses the patch
// if the object was written since it was read.
func (o objects) writeStatus(ctx context.Context, obj, before client.Object) error {
	return describe(o.client.Status().Patch(ctx, obj, locked(before)), "write status of", obj)
}

func locked(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

func describe(err error, verb string, obj client.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %T: %w", verb, obj, err)
}

func isOwned(obj client.Object, host *v1alpha1.BareMetalHost) bool {
	refs := obj.GetOwnerReferences()
	return equality.Semantic.DeepEqual(refs, ownedBy(refs, host))
}

// ownedBy returns the owners that an object of a host should have. Another host among the owners is
// a former host of the same name, and is dropped.
func ownedBy(refs []metav1.OwnerReference, host *v1alpha1.BareMetalHost) []metav1.OwnerReference {
	own := *metav1.NewControllerRef(host, v1alpha1.GroupVersion.WithKind(hostKind))
	others := slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool {
		return r.Kind == hostKind && groupOf(r) == v1alpha1.GroupVersion.Group && r.UID != host.UID
	})
	i := slices.IndexFunc(others, func(r metav1.OwnerReference) bool { return r.UID == host.UID })
	if i >= 0 {
		return others // the host may be an owner that is not the controller
	}
	if slices.ContainsFunc(others, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }) {
		own.Controller = nil // an object can have only one controller
	}
	return append(others, own)
}

func groupOf(r metav1.OwnerReference) string {
	version, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		return ""
	}
	return version.Group
}

// observed reports whether both conditions are about the given generation.
func observed(conditions []metav1.Condition, generation int64) bool {
	for _, kind := range []string{v1alpha1.ChangeDetectedCondition, v1alpha1.ValidCondition} {
		if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind && c.ObservedGeneration == generation }) {
			return false
		}
	}
	return true
}
