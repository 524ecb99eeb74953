package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names of firmware components.
const (
	// ComponentBMC is the firmware of the BMC.
	ComponentBMC = "bmc"
	// ComponentBIOS is the BIOS or UEFI firmware.
	ComponentBIOS = "bios"
	// ComponentNICPrefix begins the names of the firmware of NICs; the name of the
	// NIC follows.
	ComponentNICPrefix = "nic:"
)

// HostFirmwareComponentsSpec says which firmware a machine should have.
type HostFirmwareComponentsSpec struct {
	// updates are the images to write, at most one for each component. Components
	// that are not listed keep their firmware; an empty list changes nothing. Written by users.
	// +required
	// +listType=map
	// +listMapKey=component
	Updates []FirmwareUpdate `json:"updates"`
}

// FirmwareUpdate is a firmware image for a component.
type FirmwareUpdate struct {
	// component is "bmc", "bios", or "nic:" and a name from status.components.
	// +required
	// +kubebuilder:validation:Pattern=`^(bmc|bios|nic:.*)$`
	Component string `json:"component"`
	// url is where the image is: http or https. With another scheme the condition Valid is false.
	// +required
	// +kubebuilder:validation:Pattern=`(?i)^(https?|ftp|gopher|oci):`
	URL string `json:"url"`
}

// HostFirmwareComponentsStatus is which firmware the machine has. Written by the
// operator.
type HostFirmwareComponentsStatus struct {
	// updates are the updates of spec that were begun last. Empty after an update
	// that failed while the host was in use.
	// +optional
	// +listType=atomic
	Updates []FirmwareUpdate `json:"updates,omitempty"`

	// components are the components that the engine knows.
	// +optional
	// +listType=atomic
	Components []FirmwareComponentStatus `json:"components,omitempty"`

	// reading identifies what the components were read from. A reading that changes
	// nothing else is recorded only while spec asks for updates. Written by the operator.
	// +optional
	Reading *HardwareReading `json:"reading,omitempty"`

	// lastUpdated is when the operator last wrote this status.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// conditions are ChangeDetected and Valid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FirmwareComponentStatus is the firmware of a component.
type FirmwareComponentStatus struct {
	// component is the name, as in an update.
	// +required
	Component string `json:"component"`
	// initialVersion is the version that the engine found first.
	// +required
	InitialVersion string `json:"initialVersion"`
	// currentVersion is the version that runs. Empty means unknown.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// lastVersionFlashed is the version that the engine wrote last. Empty means that
	// it wrote none.
	// +optional
	LastVersionFlashed string `json:"lastVersionFlashed,omitempty"`
	// updatedAt is when the engine last wrote this entry.
	// +optional
	UpdatedAt metav1.Time `json:"updatedAt,omitzero"`
}

// HostFirmwareComponents is the firmware of the BareMetalHost of the same name
// and namespace: the wanted one in spec, the current one in status. The operator
// creates it for hosts whose BMC reports components; it is deleted with its host.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostfirmwarecomponents
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
type HostFirmwareComponents struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the firmware should be.
	// +optional
	Spec HostFirmwareComponentsSpec `json:"spec,omitzero"`
	// status is what it is.
	// +optional
	Status HostFirmwareComponentsStatus `json:"status,omitzero"`
}

// HostFirmwareComponentsList is a list of the firmware of machines.
// +kubebuilder:object:root=true
type HostFirmwareComponentsList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the firmware of machines.
	Items []HostFirmwareComponents `json:"items"`
}
