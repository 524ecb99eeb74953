package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metal3DataClaimSpec says what data is wanted. Written by the machine controller.
type Metal3DataClaimSpec struct {
	// template is the Metal3DataTemplate to render.
	// +required
	Template corev1.ObjectReference `json:"template"`
}

// Metal3DataClaimStatus is what became of a claim. Written by the operator.
type Metal3DataClaimStatus struct {
	// renderedData is the Metal3Data that was made for the claim.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`
	// errorMessage says why there is none. Unset means that nothing is wrong.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// Metal3DataClaim asks for the data of one Metal3Machine, which owns it.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3dataclaims,categories=cluster-api,shortName=m3dc;m3dataclaim;m3dataclaims;metal3dc;metal3dataclaim
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3DataClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what data is wanted.
	// +optional
	Spec Metal3DataClaimSpec `json:"spec,omitzero"`
	// status is what became of the claim.
	// +optional
	Status Metal3DataClaimStatus `json:"status,omitzero"`
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
	// index is the number of the data within its template, from 0.
	// +optional
	Index int32 `json:"index,omitempty"`
	// metaData is the Secret with the rendered metadata.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`
	// networkData is the Secret with the rendered network data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
	// claim is the Metal3DataClaim that asked for it.
	// +required
	Claim corev1.ObjectReference `json:"claim"`
	// template is the Metal3DataTemplate that is rendered.
	// +required
	Template corev1.ObjectReference `json:"template"`
}

// Metal3DataStatus is what became of data. Written by the operator.
type Metal3DataStatus struct {
	// ready is true when the Secrets are rendered.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// errorMessage says why they are not. Unset means that nothing is wrong.
	// +optional
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// Metal3Data is the data of one Metal3Machine, rendered from a Metal3DataTemplate into
// Secrets.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3datas,categories=cluster-api,shortName=m3d;m3data;m3datas;metal3d;metal3data
// +kubebuilder:metadata:annotations=clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check=
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
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
	Status Metal3DataStatus `json:"status,omitzero"`
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
