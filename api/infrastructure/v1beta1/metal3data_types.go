package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// Metal3DataClaim asks for the data of one Metal3Machine, which owns it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3DataClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what data is wanted.
	// +optional
	Spec v1beta2.Metal3DataClaimSpec `json:"spec,omitzero"`
	// status is what became of the claim.
	// +optional
	Status v1beta2.Metal3DataClaimStatus `json:"status,omitzero"`
}

// Metal3DataClaimList is a list of claims.
// +kubebuilder:object:root=true
type Metal3DataClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the claims.
	Items []Metal3DataClaim `json:"items"`
}

// Metal3DataSpec is what data is rendered from, and where to. Written by the operator.
type Metal3DataSpec struct {
	v1beta2.Metal3DataSpec `json:",inline"`
	// templateReference is a name that earlier versions compared templates by.
	// +optional
	TemplateReference string `json:"templateReference,omitempty"`
}

// Metal3Data is the data of one Metal3Machine, rendered from a Metal3DataTemplate into
// Secrets.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3Data struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the data is rendered from, and where to.
	// +optional
	Spec Metal3DataSpec `json:"spec,omitzero"`
	// status is what became of it.
	// +optional
	Status v1beta2.Metal3DataStatus `json:"status,omitzero"`
}

// Metal3DataList is a list of data.
// +kubebuilder:object:root=true
type Metal3DataList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the data.
	Items []Metal3Data `json:"items"`
}
