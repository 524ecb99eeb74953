package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIEndpoint is where an API server is reached.
type APIEndpoint struct {
	// host is a DNS name or an IP address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`
	// port is the TCP port.
	// +optional
	// +kubebuilder:default=6443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// Image is a disk image.
type Image struct {
	// url is where the image is: http, https, ftp, gopher or oci.
	// +required
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url,omitempty"`
	// checksum is the digest of the image, or the URL of a file of digests. Only images with
	// diskFormat live-iso and images of a registry need none.
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// checksumType is the algorithm of the checksum. Unset means that it is told from the
	// length of the digest.
	// +optional
	// +kubebuilder:validation:Enum=md5;sha256;sha512
	ChecksumType string `json:"checksumType,omitempty"`
	// diskFormat is the format of the image. Unset means that it is looked up in the image;
	// live-iso is booted and not written to a disk.
	// +optional
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	DiskFormat string `json:"diskFormat,omitempty"`
}

// DiskFormatLiveISO is the diskFormat of an image that is booted and not written.
const DiskFormatLiveISO = "live-iso"

// CustomDeploy is a way to deploy that a ramdisk of one's own knows.
type CustomDeploy struct {
	// method is the name of the deploy step.
	// +required
	// +kubebuilder:validation:MinLength=1
	Method string `json:"method,omitempty"`
}

// ObjectReference names an object of this group.
type ObjectReference struct {
	// name is the name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace is its namespace. Unset means that of the object that refers to it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
}

// DeprecatedCondition is a condition as version v1beta1 has them.
type DeprecatedCondition struct {
	// type is what it is about.
	// +required
	Type string `json:"type"`
	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`
	// severity is how bad the status False is: Error, Warning or Info.
	// +optional
	Severity string `json:"severity,omitempty"`
	// lastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// reason is a word for why.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is a sentence for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// V1Beta1DeprecatedStatus is what version v1beta1 had in the status and what has no meaning
// any more. Nobody writes it; it is kept so that nothing of a converted object is lost.
type V1Beta1DeprecatedStatus struct {
	// conditions are those of version v1beta1, which have a severity.
	// +optional
	// +listType=atomic
	Conditions []DeprecatedCondition `json:"conditions,omitempty"`
	// failureReason is a word for an error that did not go away by itself.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`
	// failureMessage is a sentence about it.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`
}

// DeprecatedStatus groups what earlier versions had in the status.
type DeprecatedStatus struct {
	// v1beta1 is what version v1beta1 had.
	// +optional
	V1Beta1 *V1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// InitializationStatus is what Cluster API waits for when it makes something new.
type InitializationStatus struct {
	// provisioned becomes true once, and stays so.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// conditionLists are implemented by the kinds with conditions, as the helpers of Cluster API
// want it.
type conditionLists interface {
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

var _, _ conditionLists = &Metal3Cluster{}, &Metal3Machine{}
