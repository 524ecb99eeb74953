package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Metal3MachineTemplateSpec has the template and what holds for all machines of it.
type Metal3MachineTemplateSpec struct {
	// template is what Metal3Machines are made of.
	// +required
	Template Metal3MachineTemplateResource `json:"template,omitzero"`

	// nodeReuse keeps the hosts of deleted machines for machines of the same owner: a
	// control plane or a MachineDeployment. Unset means false.
	// +optional
	// +kubebuilder:default=false
	NodeReuse *bool `json:"nodeReuse,omitempty"`
}

// Metal3MachineTemplateResource is what Metal3Machines are made of.
type Metal3MachineTemplateResource struct {
	// metadata is what they have of labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitzero"`
	// spec is their spec.
	// +required
	Spec Metal3MachineSpec `json:"spec"`
}

// Metal3MachineTemplateStatus is what machines of the template have. Read by the cluster autoscaler when
// there is no such machine yet. The operator writes of it what the hardware of hosts tells; others may add to it.
type Metal3MachineTemplateStatus struct {
	// capacity is what each of the hosts that the template selects has at least. The operator writes cpu, the number of
	// logical processors, and memory, that which is built in. Unset means unknown.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo is what a Node will tell of its system. The operator writes the architecture. Unset means unknown.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitzero"`
}

// NodeInfo is what a Node tells of its system.
type NodeInfo struct {
	// architecture is that of the processors, as in Node.status.nodeInfo. The operator removes it when hosts that the
	// template selects differ in it. Unset means unknown.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is that of the image, in lower case. The operator does not write it. Unset means unknown.
	// +optional
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// Metal3MachineTemplate makes Metal3Machines. Written by users. Changes of nodeReuse and of
// automatedCleaningMode hold for machines that exist; all others for machines that are made
// later.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3machinetemplates,categories=cluster-api,shortName=m3mt;m3machinetemplate;m3machinetemplates;metal3mt;metal3machinetemplate
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3MachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template.
	// +optional
	Spec Metal3MachineTemplateSpec `json:"spec,omitzero"`
	// status is what machines of it have.
	// +optional
	Status Metal3MachineTemplateStatus `json:"status,omitzero"`
}

// Metal3MachineTemplateList is a list of templates.
// +kubebuilder:object:root=true
type Metal3MachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []Metal3MachineTemplate `json:"items"`
}
