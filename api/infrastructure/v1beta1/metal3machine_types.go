package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

// Image is a disk image. An empty url counts as none.
type Image struct {
	// url is where the image is: http, https, ftp, gopher or oci.
	// +required
	URL string `json:"url"`
	// checksum is the digest of the image, or the URL of a file of digests.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// checksumType is the algorithm of the checksum.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512
	ChecksumType *string `json:"checksumType,omitempty"`
	// format is the format of the image.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat *string `json:"format,omitempty"`
}

// CustomDeploy is a way to deploy that a ramdisk of one's own knows. An empty method counts
// as none.
type CustomDeploy struct {
	// method is the name of the deploy step.
	// +required
	Method string `json:"method"`
}

// Metal3MachineSpec says which host a machine gets and what is deployed on it.
type Metal3MachineSpec struct {
	// providerID is the ID of the Node of the machine. Written by the operator.
	// +optional
	ProviderID *string `json:"providerID,omitempty"`
	// image is what is deployed.
	// +optional
	Image *Image `json:"image,omitempty"`
	// customDeploy is another way to deploy than writing an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`
	// userData is a Secret with the user data for the machine.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`
	// hostSelector says which hosts can be chosen.
	// +optional
	HostSelector *v1beta2.HostSelector `json:"hostSelector,omitempty"`
	// dataTemplate is a Metal3DataTemplate; its name and namespace count.
	// +optional
	DataTemplate *corev1.ObjectReference `json:"dataTemplate,omitempty"`
	// metaData is a Secret with metadata for the machine.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`
	// networkData is a Secret with network data for the machine.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
	// automatedCleaningMode is what happens to the disks of the host.
	// +optional
	// +kubebuilder:validation:Enum=metadata;disabled
	AutomatedCleaningMode *string `json:"automatedCleaningMode,omitempty"`
	// failureDomain is where the host should stand.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
}

// Metal3MachineStatus is what became of a machine. Written by the operator.
type Metal3MachineStatus struct {
	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`
	// failureReason is a word for an error that did not go away by itself.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`
	// failureMessage is a sentence about it.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`
	// addresses are the addresses and names of the host.
	// +optional
	// +listType=atomic
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
	// phase is what earlier versions wrote about the progress.
	// +optional
	Phase string `json:"phase,omitempty"`
	// ready becomes true when the host is provisioned.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// userData is the Secret with the user data that the host got.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`
	// renderedData is the Metal3Data that was rendered for the machine.
	// +optional
	RenderedData *corev1.ObjectReference `json:"renderedData,omitempty"`
	// metaData is the Secret with the metadata that the host got.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`
	// networkData is the Secret with the network data that the host got.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
	// conditions are those of this version, which have a severity.
	// +optional
	// +listType=atomic
	Conditions []v1beta2.DeprecatedCondition `json:"conditions,omitempty"`
	// v1beta2 has what version v1beta2 has under other names.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// Metal3Machine is the infrastructure of a Machine: it takes a BareMetalHost, has the image
// deployed on it, and releases it when it is deleted.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="ID of the Node"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.ready",description="Whether the host is provisioned"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="What earlier versions wrote about the progress"
type Metal3Machine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which host the machine gets and what is deployed on it.
	// +optional
	Spec Metal3MachineSpec `json:"spec,omitzero"`
	// status is what became of it.
	// +optional
	Status Metal3MachineStatus `json:"status,omitzero"`
}

// Metal3MachineList is a list of machines.
// +kubebuilder:object:root=true
type Metal3MachineList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the machines.
	Items []Metal3Machine `json:"items"`
}

// Metal3MachineTemplateSpec has the template and what holds for all machines of it.
type Metal3MachineTemplateSpec struct {
	// template is what Metal3Machines are made of.
	// +required
	Template Metal3MachineTemplateResource `json:"template"`
	// nodeReuse keeps the hosts of deleted machines for machines of the same owner.
	// +optional
	// +kubebuilder:default=false
	NodeReuse *bool `json:"nodeReuse,omitempty"`
}

// Metal3MachineTemplateResource is what Metal3Machines are made of.
type Metal3MachineTemplateResource struct {
	// spec is their spec.
	// +required
	Spec Metal3MachineSpec `json:"spec"`
}

// Metal3MachineTemplate makes Metal3Machines. Written by users.
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 is deprecated; write v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type Metal3MachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the template.
	// +optional
	Spec Metal3MachineTemplateSpec `json:"spec,omitzero"`
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
