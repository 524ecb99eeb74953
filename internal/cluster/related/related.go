// Package related finds the objects that belong together: Machine, Metal3Machine, host and Cluster.
// Each link is followed from the side that owns it, and counts only when the other side has the
// expected UID or reference.
package related

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Kinds, as references to consumers and owners name them.
const (
	metal3MachineKind = "Metal3Machine"
	metal3ClusterKind = "Metal3Cluster"
	machineKind       = "Machine"
	clusterKind       = "Cluster"
)

// Machine returns the Machine that owns an object, or nil when there is none or it is gone.
func Machine(ctx context.Context, r client.Reader, obj client.Object) (*clusterv1.Machine, error) {
	return owner(ctx, r, obj, machineKind, &clusterv1.Machine{})
}

// OwnerCluster returns the Cluster that owns an object, or nil when there is none or it is gone.
func OwnerCluster(ctx context.Context, r client.Reader, obj client.Object) (*clusterv1.Cluster, error) {
	return owner(ctx, r, obj, clusterKind, &clusterv1.Cluster{})
}

// ClusterOf returns the Cluster of a Machine, or nil when it is gone.
func ClusterOf(ctx context.Context, r client.Reader, machine *clusterv1.Machine) (*clusterv1.Cluster, error) {
	return get(ctx, r, machine.Namespace, machine.Spec.ClusterName, &clusterv1.Cluster{})
}

// Metal3Cluster returns the infrastructure of a Cluster, or nil when it has none of this kind or
// the infrastructure is gone.
func Metal3Cluster(ctx context.Context, r client.Reader, cluster *clusterv1.Cluster) (*v1beta2.Metal3Cluster, error) {
	ref := cluster.Spec.InfrastructureRef
	if ref.APIGroup != v1beta2.GroupVersion.Group || ref.Kind != metal3ClusterKind {
		return nil, nil
	}
	c, err := get(ctx, r, cluster.Namespace, ref.Name, &v1beta2.Metal3Cluster{})
	if err != nil {
		return nil, fmt.Errorf("read the Metal3Cluster of Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return c, nil
}

// Metal3Machine returns the infrastructure of a Machine, or nil when it has none of this kind
// or it belongs to another Machine.
func Metal3Machine(ctx context.Context, r client.Reader, machine *clusterv1.Machine) (*v1beta2.Metal3Machine, error) {
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup != v1beta2.GroupVersion.Group || ref.Kind != metal3MachineKind {
		return nil, nil
	}
	m, err := get(ctx, r, machine.Namespace, ref.Name, &v1beta2.Metal3Machine{})
	if m == nil || err != nil || !IsOwnedBy(m, machine) {
		return nil, err
	}
	return m, nil
}

// IsOwnedBy reports whether an object has an owner with the UID of another.
func IsOwnedBy(obj, owner client.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

// HostName returns the name of the host that a Metal3Machine has chosen, and false when it has not
// chosen one. A host of another namespace does not count, because a machine may not have it.
func HostName(m *v1beta2.Metal3Machine) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(m.Annotations[v1beta2.HostAnnotation], "/")
	if !ok || namespace != m.Namespace || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, true
}

// ProviderIDs returns the provider IDs that the Node of m may have: that of m, or those that m may
// get, because kubelet may register the Node before m gets its provider ID. These name the host that
// m has chosen, or are made of the UID of h, the host of m. m and h may be nil.
func ProviderIDs(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) []string {
	if m == nil {
		return nil
	}
	if m.Spec.ProviderID != "" {
		return []string{m.Spec.ProviderID}
	}
	var ids []string
	if host, chosen := HostName(m); chosen {
		ids = append(ids, v1beta2.ProviderIDPrefix+host.String()+"/"+m.Name)
	}
	if h != nil {
		ids = append(ids, v1beta2.ProviderIDPrefix+string(h.UID))
	}
	return ids
}

// Host returns the host that a Metal3Machine has chosen and holds, or nil when it has none,
// the host is gone, or another consumer has it.
func Host(ctx context.Context, r client.Reader, m *v1beta2.Metal3Machine) (*v1alpha1.BareMetalHost, error) {
	key, ok := HostName(m)
	if !ok {
		return nil, nil
	}
	h, err := get(ctx, r, key.Namespace, key.Name, &v1alpha1.BareMetalHost{})
	if h == nil || err != nil || !Consumes(m, h) {
		return nil, err
	}
	return h, nil
}

// Consumes reports whether a host names this Metal3Machine as its consumer. The version of the
// reference does not matter. A UID in the reference has to be that of the machine, because an
// earlier machine may have had the same name; it is ignored if it was written for another host
// object. A reference without a UID counts by its name, so the machine holds the host only if the
// machine names the host, too.
func Consumes(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	if h.Spec.ConsumerRef == nil {
		return false
	}
	ref := *h.Spec.ConsumerRef
	if isCarried(h) {
		ref.UID = ""
	}
	return isReferenceTo(&ref, v1beta2.GroupVersion.Group, metal3MachineKind, h.Namespace, m)
}

// ConsumesByUID reports whether a host names this very Metal3Machine as its consumer, by UID. That
// proves the claim, even if the machine does not name the host. The references of Metal3's provider
// have no UID. That provider makes the machine an owner of the host in the write that sets the
// reference, before the machine names the host, so the UID of the owner counts instead.
func ConsumesByUID(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) bool {
	if !Consumes(m, h) {
		return false
	}
	uid := h.Spec.ConsumerRef.UID
	return uid == m.UID || uid == "" && IsOwnedBy(h, m)
}

// SetConsumer makes an object the consumer of a host object.
func SetConsumer(h *v1alpha1.BareMetalHost, consumer *corev1.ObjectReference) {
	Disown(h)
	h.Spec.ConsumerRef = consumer
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1beta2.ConsumerHostUIDAnnotation, string(h.UID))
}

// ClearConsumer leaves a host object without a consumer.
func ClearConsumer(h *v1alpha1.BareMetalHost) {
	Disown(h)
	h.Spec.ConsumerRef = nil
	delete(h.Annotations, v1beta2.ConsumerHostUIDAnnotation)
}

// Disown removes the Metal3Machines from the owners of a host object. Metal3's provider makes the
// machine that has a host its owner, and Kubernetes would delete the host with the machine.
func Disown(h *v1alpha1.BareMetalHost) {
	h.OwnerReferences = slices.DeleteFunc(h.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return isOfKind(&ref, v1beta2.GroupVersion.Group, metal3MachineKind)
	})
}

// isCarried reports whether the consumer of a host was written for another host object, so that its
// UID means nothing here: clusterctl and restored backups give each object a new UID.
func isCarried(h *v1alpha1.BareMetalHost) bool {
	uid := h.Annotations[v1beta2.ConsumerHostUIDAnnotation]
	return uid != "" && uid != string(h.UID)
}

// isReferenceTo reports whether a reference names obj, which is of the given group and kind.
// namespace is that of the object with the reference, which counts when the reference names none.
func isReferenceTo(ref *corev1.ObjectReference, group, kind, namespace string, obj client.Object) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return err == nil && version.Group == group && ref.Kind == kind && ref.Name == obj.GetName() && namespace == obj.GetNamespace() &&
		(ref.UID == "" || ref.UID == obj.GetUID())
}

// IsPaused reports whether nothing may be done for an object: its Cluster is paused, or the object
// has Cluster API's annotation. A nil Cluster pauses nothing.
func IsPaused(cluster *clusterv1.Cluster, obj client.Object) bool {
	if cluster != nil && cluster.Spec.Paused != nil && *cluster.Spec.Paused {
		return true
	}
	_, paused := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// owner returns the owner of an object that has a kind of Cluster API, or nil when the object names
// none or the owner is gone.
func owner[T client.Object](ctx context.Context, r client.Reader, obj client.Object, kind string, into T) (T, error) {
	var none T
	ref := ownerReference(obj, kind)
	if ref == nil {
		return none, nil
	}
	found, err := get(ctx, r, obj.GetNamespace(), ref.Name, into)
	if err != nil || any(found) == any(none) || found.GetUID() != ref.UID {
		return none, err
	}
	return found, nil
}

func ownerReference(obj client.Object, kind string) *metav1.OwnerReference {
	for _, ref := range obj.GetOwnerReferences() {
		if isOfKind(&ref, clusterv1.GroupVersion.Group, kind) {
			return &ref
		}
	}
	return nil
}

// isOfKind reports whether an owner is of a kind, whatever its version.
func isOfKind(ref *metav1.OwnerReference, group, kind string) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && version.Group == group && ref.Kind == kind
}

// get reads an object. It returns nil when the object does not exist or name is empty.
func get[T client.Object](ctx context.Context, r client.Reader, namespace, name string, into T) (T, error) {
	var none T
	if name == "" {
		return none, nil
	}
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return into, nil
}
