package reuse

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

const (
	metal3MachineKind     = "Metal3Machine"
	templateKind          = "Metal3MachineTemplate"
	clusterKind           = "Cluster"
	machineSetKind        = "MachineSet"
	machineDeploymentKind = "MachineDeployment"

	// controlPlaneGroup is the group of KubeadmControlPlane and of most other control planes.
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"

	// hashLength is the number of hexadecimal digits of the hash at the end of a label that is too
	// long.
	hashLength = 10
	// maxLabel is the length limit of the value of a label.
	maxLabel = 63
)

// appearance is how long a reservation from elsewhere waits for its owner and its Cluster, counted
// from the creation of the host object. Objects that are brought to a management cluster together
// may appear one after the other.
const appearance = 10 * time.Minute

// Owner is the object whose machines take over each other's hosts: a MachineDeployment, or a
// control plane of any kind.
type Owner struct {
	Kind, APIVersion, Namespace, Name string
	UID                               types.UID
}

// String returns the owner as messages name it.
func (o Owner) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// group returns the API group of the owner.
func (o Owner) group() string { return groupOf(o.APIVersion) }

// reference returns the owner as hosts and events name it.
func (o Owner) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// label returns the value of NodeReuseLabel on the hosts of the owner. The label of a long name
// ends with a hash.
func (o Owner) label() string {
	value := v1beta2.NodeReuseControlPlane + o.Name
	if o.Kind == machineDeploymentKind {
		value = v1beta2.NodeReuseMachineDeployment + o.Name
	}
	if len(value) <= maxLabel {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return value[:maxLabel-1-hashLength] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// IsReserved reports whether a host is reserved for an owner. Only machines of this owner may take
// the host.
func IsReserved(h *v1alpha1.BareMetalHost) bool {
	_, reserved := markOf(h)
	return reserved
}

// ReservedFor reports whether a host is reserved for this owner. A reservation with another UID is
// for an earlier owner of the same name, unless it comes from another management cluster, where the
// UID was another one.
func ReservedFor(owner *Owner, h *v1alpha1.BareMetalHost) bool {
	m, reserved := markOf(h)
	return reserved && owner != nil && m.names(*owner) && m.accepts(owner.UID)
}

// IsForeign reports whether another provider keeps a host, with a label that does not tell for
// whom. No machine may take the host.
func IsForeign(h *v1alpha1.BareMetalHost) bool {
	label, named := labelOf(h)
	return label != "" && !named && !IsReserved(h)
}

// ReservedAt returns when a host was reserved, or the zero time when it does not tell.
func ReservedAt(h *v1alpha1.BareMetalHost) time.Time {
	at, err := time.Parse(time.RFC3339, h.Annotations[v1beta2.ReservedAtAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Clear removes the label and the annotations of a reservation from a host object, but not its
// consumer. Whoever claims a reserved host writes this together with the new consumer.
func Clear(h *v1alpha1.BareMetalHost) {
	delete(h.Labels, v1beta2.NodeReuseLabel)
	delete(h.Annotations, v1beta2.ReservedAtAnnotation)
	delete(h.Annotations, v1beta2.ConsumerHostUIDAnnotation)
}

// release edits a host object so that every machine may have the host.
func release(h *v1alpha1.BareMetalHost) {
	Clear(h)
	related.ClearConsumer(h)
	delete(h.Labels, clusterv1.ClusterNameLabel)
}

// reserve edits a host object so that the host is reserved for an owner.
func reserve(h *v1alpha1.BareMetalHost, owner Owner, at time.Time) {
	related.SetConsumer(h, owner.reference())
	if h.Labels == nil {
		h.Labels = map[string]string{}
	}
	h.Labels[v1beta2.NodeReuseLabel] = owner.label()
	h.Annotations[v1beta2.ReservedAtAnnotation] = at.UTC().Format(time.RFC3339)
}

// mark is what a host says about its reservation.
type mark struct {
	host *v1alpha1.BareMetalHost
	// ref is the owner, or nil when only the label names the owner, as Metal3's provider writes it.
	ref *corev1.ObjectReference
	// label is the value of NodeReuseLabel, with the present prefix if it has an older one.
	label string
}

// markOf returns the reservation of a host, and whether the host has one. A consumer of an unknown
// kind counts as the owner of a reservation only when the label or the annotation says so.
func markOf(h *v1alpha1.BareMetalHost) (mark, bool) {
	label, labelled := labelOf(h)
	_, stamped := h.Annotations[v1beta2.ReservedAtAnnotation]
	ref := h.Spec.ConsumerRef
	if ref == nil || ref.Name == "" {
		return mark{host: h, label: label}, labelled
	}
	switch group := groupOf(ref.APIVersion); {
	case isMetal3Machine(ref):
		return mark{}, false
	case group == clusterv1.GroupVersion.Group && ref.Kind == clusterKind:
		return mark{host: h, label: label}, labelled
	case group == clusterv1.GroupVersion.Group && ref.Kind == machineDeploymentKind, group == controlPlaneGroup, labelled, stamped:
		return mark{host: h, ref: ref, label: label}, true
	}
	return mark{}, false
}

// labelOf returns the value of NodeReuseLabel, with the present prefix in place of an older one,
// and whether it names an owner.
func labelOf(h *v1alpha1.BareMetalHost) (label string, named bool) {
	label = h.Labels[v1beta2.NodeReuseLabel]
	if name, older := strings.CutPrefix(label, v1beta2.NodeReuseLegacyControlPlane); older {
		label = v1beta2.NodeReuseControlPlane + name
	}
	return label, strings.HasPrefix(label, v1beta2.NodeReuseControlPlane) || strings.HasPrefix(label, v1beta2.NodeReuseMachineDeployment)
}

func isMetal3Machine(ref *corev1.ObjectReference) bool {
	return ref != nil && ref.Kind == metal3MachineKind && groupOf(ref.APIVersion) == v1beta2.GroupVersion.Group
}

// names reports whether the reservation names an owner, whatever its UID.
func (m mark) names(o Owner) bool {
	if m.ref == nil {
		return o.Namespace == m.host.Namespace && o.label() == m.label
	}
	return groupOf(m.ref.APIVersion) == o.group() && m.ref.Kind == o.Kind && m.ref.Name == o.Name &&
		m.namespace() == o.Namespace && m.host.Namespace == o.Namespace
}

// namespace returns the namespace of the owner.
func (m mark) namespace() string {
	if m.ref == nil || m.ref.Namespace == "" {
		return m.host.Namespace
	}
	return m.ref.Namespace
}

// accepts reports whether the reservation fits the UID of an owner that it names.
func (m mark) accepts(uid types.UID) bool {
	return m.ref == nil || m.ref.UID == "" || uid == "" || m.ref.UID == uid || m.carried()
}

// carried reports whether the reservation was not made for this host object: it comes from another
// management cluster, another provider or a person. The UID of the owner in it means nothing here.
func (m mark) carried() bool {
	return m.host.Annotations[v1beta2.ConsumerHostUIDAnnotation] != string(m.host.UID)
}

// groupOf returns the group in an apiVersion, which is empty if there is none.
func groupOf(apiVersion string) string {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return version.Group
}
