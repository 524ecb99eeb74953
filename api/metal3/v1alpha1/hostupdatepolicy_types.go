package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UpdatePolicy says when a change of firmware is applied.
// +kubebuilder:validation:Enum=onPreparing;onReboot
type UpdatePolicy string

// Update policies.
const (
	// UpdateOnPreparing applies a change while the host is prepared for use, and
	// never to a host in use. It is the default.
	UpdateOnPreparing UpdatePolicy = "onPreparing"
	// UpdateOnReboot also applies a change to a host in use, when a reboot of the
	// host is requested.
	UpdateOnReboot UpdatePolicy = "onReboot"
)

// HostUpdatePolicySpec says when changes of firmware are applied.
type HostUpdatePolicySpec struct {
	// firmwareSettings is the policy for HostFirmwareSettings. Unset behaves as
	// onPreparing. Written by users.
	// +optional
	FirmwareSettings UpdatePolicy `json:"firmwareSettings,omitempty"`
	// firmwareUpdates is the policy for HostFirmwareComponents. Unset behaves as
	// onPreparing. Written by users.
	// +optional
	FirmwareUpdates UpdatePolicy `json:"firmwareUpdates,omitempty"`
}

// HostUpdatePolicyStatus has no fields. The key is accepted because manifests
// that were exported from clusters have it, and nobody writes it.
type HostUpdatePolicyStatus struct{}

// HostUpdatePolicy allows or forbids to change firmware of the BareMetalHost of
// the same name and namespace while it is in use. Without such an object nothing
// is changed then, so who may not write this kind cannot allow it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostupdatepolicies
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
type HostUpdatePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy.
	// +optional
	Spec HostUpdatePolicySpec `json:"spec,omitzero"`
	// status is unused.
	// +optional
	Status HostUpdatePolicyStatus `json:"status,omitzero"`
}

// HostUpdatePolicyList is a list of policies.
// +kubebuilder:object:root=true
type HostUpdatePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the policies.
	Items []HostUpdatePolicy `json:"items"`
}
