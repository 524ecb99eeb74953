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

// hostKind is the kind of owners.
const hostKind = "BareMetalHost"

// objects reads and writes objects that have the name of their host.
type objects struct {
	client client.Client
	live   client.Reader
}

// ensure brings the newest version of an object into obj, which has the content of a
// new one: it creates the object, or reads the one that exists and makes the host its
// owner.
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

// writeStatus patches what differs in the status of an object. The patch is refused if
// the object was written since it was read.
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

// ownedBy is pure: the owners of an object of a host. The name belongs to the host, so
// another host among the owners is a former one of that name.
func ownedBy(refs []metav1.OwnerReference, host *v1alpha1.BareMetalHost) []metav1.OwnerReference {
	own := *metav1.NewControllerRef(host, v1alpha1.GroupVersion.WithKind(hostKind))
	others := slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool {
		return r.Kind == hostKind && groupOf(r) == v1alpha1.GroupVersion.Group && r.UID != host.UID
	})
	i := slices.IndexFunc(others, func(r metav1.OwnerReference) bool { return r.UID == host.UID })
	if i >= 0 {
		return others // also one without the mark of a controller
	}
	if slices.ContainsFunc(others, func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }) {
		own.Controller = nil // an object has one controller
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

// observed reports whether the conditions of those types are about a generation.
func observed(conditions []metav1.Condition, generation int64) bool {
	for _, kind := range []string{v1alpha1.ChangeDetectedCondition, v1alpha1.ValidCondition} {
		if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind && c.ObservedGeneration == generation }) {
			return false
		}
	}
	return true
}
