package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HostFirmwareSettingsSpec says which BIOS settings a machine should have.
type HostFirmwareSettingsSpec struct {
	// settings are the wanted values by the names of the machine's BIOS. Settings
	// that are not listed keep their values; an empty map changes nothing. The
	// operator creates it empty, users write the rest. Numbers have 32 bits; larger
	// ones are written as text.
	// +required
	// +kubebuilder:validation:MaxProperties=4096
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == string || (self[name] >= -2147483648 && self[name] <= 2147483647))",message="a number must fit into 32 bits; write larger ones as text, in quotes"
	Settings map[string]intstr.IntOrString `json:"settings"`
}

// HostFirmwareSettingsStatus is what the machine's BIOS has. Written by the operator.
type HostFirmwareSettingsStatus struct {
	// schema refers to the FirmwareSchema with the values that the settings take.
	// Unset until the engine knows it.
	// +optional
	FirmwareSchema *SchemaReference `json:"schema,omitempty"`

	// settings are the current values by name. Settings whose names contain
	// "Password" are left out.
	// +required
	Settings map[string]string `json:"settings"`

	// reading identifies what the settings were read from. A reading that changes nothing
	// else is recorded only while spec asks for settings. Written by the operator.
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

// SchemaReference refers to a FirmwareSchema.
type SchemaReference struct {
	// namespace is the object's namespace.
	// +required
	Namespace string `json:"namespace"`
	// name is the object's name.
	// +required
	Name string `json:"name"`
}

// HostFirmwareSettings are the BIOS settings of the BareMetalHost of the same
// name and namespace: the wanted ones in spec, the current ones in status. The
// operator creates it with the host; it is deleted with its host.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=hfs,path=hostfirmwaresettings
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
type HostFirmwareSettings struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the settings should be.
	// +optional
	Spec HostFirmwareSettingsSpec `json:"spec,omitzero"`
	// status is what they are.
	// +optional
	Status HostFirmwareSettingsStatus `json:"status,omitzero"`
}

// HostFirmwareSettingsList is a list of settings of machines.
// +kubebuilder:object:root=true
type HostFirmwareSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the settings.
	Items []HostFirmwareSettings `json:"items"`
}
