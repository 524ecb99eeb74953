package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Values of automatedCleaningMode.
const (
	// CleaningModeMetadata cleans the metadata of the disks of a host before it is used
	// again.
	CleaningModeMetadata = "metadata"
	// CleaningModeDisabled leaves the disks as they are.
	CleaningModeDisabled = "disabled"
)

// Metal3MachineSpec says which host a machine gets and what is deployed on it. One of image
// and customDeploy has to be set. Written by users and templates, where nothing else is said.
type Metal3MachineSpec struct {
	// providerID is the ID of the Node of the machine. Written by the operator; "metal3://",
	// namespace, host and name of the Metal3Machine.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// image is what is deployed.
	// +optional
	Image Image `json:"image,omitzero"`

	// customDeploy is another way to deploy than writing an image.
	// +optional
	CustomDeploy CustomDeploy `json:"customDeploy,omitzero"`

	// userData is a Secret with the user data for the machine. Unset means that of the
	// Machine's bootstrap.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// hostSelector says which hosts can be chosen, by their labels. Unset means all of the
	// namespace.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// dataTemplate is a Metal3DataTemplate from which metadata and network data of the
	// machine are rendered.
	// +optional
	DataTemplate *ObjectReference `json:"dataTemplate,omitempty"`

	// metaData is a Secret with metadata for the machine, in the place of rendered
	// metadata.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is a Secret with network data for the machine, in the place of rendered
	// network data.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// automatedCleaningMode is what happens to the disks of the host when it is released and
	// before it is provisioned: metadata cleans their metadata, disabled leaves them. Unset
	// leaves the field of the host as it is. Changes of the template are copied here.
	// +optional
	// +kubebuilder:validation:Enum=metadata;disabled
	AutomatedCleaningMode string `json:"automatedCleaningMode,omitempty"`

	// failureDomain is where the host should stand. Unset means that of the Machine. Hosts
	// elsewhere are chosen only when there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
}

// Metal3MachineStatus is what became of a machine. Written by the operator.
type Metal3MachineStatus struct {
	// conditions are Ready, AssociateBareMetalHost, AssociateMetal3MachineMetaData,
	// Metal3DataReady and Paused, and HostReserved while the machine is being deleted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API that the host is provisioned.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitzero"`

	// addresses are the addresses and names of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is where the host stands.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// userData is the Secret with the user data that the host got.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// renderedData is the Metal3Data that was rendered for the machine.
	// +optional
	RenderedData *ObjectReference `json:"renderedData,omitempty"`

	// metaData is the Secret with the metadata that the host got.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is the Secret with the network data that the host got.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// lastUpdated is when the status changed last.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// deprecated groups what earlier versions had here.
	// +optional
	Deprecated *DeprecatedStatus `json:"deprecated,omitempty"`
}

// Metal3Machine is the infrastructure of a Machine: it takes a BareMetalHost, has the image
// deployed on it, and releases it when it is deleted.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=metal3machines,categories=cluster-api,shortName=m3m;m3machine;m3machines;metal3m;metal3machine
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta1=v1beta1
// +kubebuilder:metadata:labels=cluster.x-k8s.io/v1beta2=v1beta2
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="ID of the Node"
// +kubebuilder:printcolumn:name="Provisioned",type="string",JSONPath=".status.initialization.provisioned",description="Whether the host is provisioned"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster that it belongs to"
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

// GetConditions returns the conditions.
func (m *Metal3Machine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *Metal3Machine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
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
