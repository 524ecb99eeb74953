package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HardwareDataSpec holds the hardware details of a host.
type HardwareDataSpec struct {
	// hardware is the result of inspection, the same structure as
	// status.hardware of the host. Written by the operator.
	// +optional
	HardwareDetails *HardwareDetails `json:"hardware,omitempty"`
}

// HardwareData holds the hardware details of the BareMetalHost of the same
// name and namespace. The operator creates it and patches it in place; it is
// deleted with its host.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=hd,path=hardwaredata
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HardwareData struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the details; there is no status.
	// +optional
	Spec HardwareDataSpec `json:"spec,omitzero"`
}

// HardwareDataList is a list of hardware details.
// +kubebuilder:object:root=true
type HardwareDataList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the hardware details.
	Items []HardwareData `json:"items"`
}
