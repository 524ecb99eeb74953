package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FirmwareSchemaSpec says which BIOS settings machines of a model have. Written by
// the operator; the settings are never changed.
type FirmwareSchemaSpec struct {
	// hardwareVendor is the maker of the machines. Empty until one of them was inspected.
	// +optional
	HardwareVendor string `json:"hardwareVendor,omitempty"`
	// hardwareModel is the model of the machines. Empty until one of them was inspected.
	// +optional
	HardwareModel string `json:"hardwareModel,omitempty"`
	// schema has the values that each setting takes, by the setting's name.
	// +required
	Schema map[string]SettingSchema `json:"schema"`
}

// SettingSchema says which values a BIOS setting takes, after the attribute registry of
// Redfish (AttributeRegistry, DSP0268).
type SettingSchema struct {
	// attribute_type is the type of the setting. Empty means unknown, and any value is
	// accepted then.
	// +optional
	AttributeType AttributeType `json:"attribute_type,omitempty"`
	// allowable_values are the values that a setting of type Enumeration takes.
	// +optional
	// +listType=atomic
	AllowableValues []string `json:"allowable_values,omitempty"`
	// lower_bound is the lowest value of a setting of type Integer.
	// +optional
	LowerBound *int `json:"lower_bound,omitempty"`
	// upper_bound is the highest value of a setting of type Integer.
	// +optional
	UpperBound *int `json:"upper_bound,omitempty"`
	// min_length is the smallest number of characters of a setting of type String.
	// +optional
	MinLength *int `json:"min_length,omitempty"`
	// max_length is the largest number of characters of a setting of type String.
	// +optional
	MaxLength *int `json:"max_length,omitempty"`
	// read_only says that the setting cannot be changed.
	// +optional
	ReadOnly *bool `json:"read_only,omitempty"`
	// unique says that the value belongs to this machine, such as a serial number.
	// +optional
	Unique *bool `json:"unique,omitempty"`
}

// AttributeType is the type of a BIOS setting.
// +kubebuilder:validation:Enum=Enumeration;String;Integer;Boolean;Password
type AttributeType string

// Types of BIOS settings.
const (
	// AttributeEnumeration is one of several values.
	AttributeEnumeration AttributeType = "Enumeration"
	// AttributeString is text.
	AttributeString AttributeType = "String"
	// AttributeInteger is a whole number.
	AttributeInteger AttributeType = "Integer"
	// AttributeBoolean is true or false.
	AttributeBoolean AttributeType = "Boolean"
	// AttributePassword is a secret; Ingot neither shows nor writes it.
	AttributePassword AttributeType = "Password"
)

// FirmwareSchema says which BIOS settings machines have, and which values these
// take. All hosts of a namespace with the same settings share one; it is deleted
// with the last of their HostFirmwareSettings.
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
type FirmwareSchema struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has the settings; there is no status.
	// +optional
	Spec FirmwareSchemaSpec `json:"spec,omitzero"`
}

// FirmwareSchemaList is a list of schemas.
// +kubebuilder:object:root=true
type FirmwareSchemaList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the schemas.
	Items []FirmwareSchema `json:"items"`
}
