package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DataImageFinalizer keeps a deleted DataImage until its image is detached.
const DataImageFinalizer = "dataimage.metal3.io"

// AttachedCondition is the condition of a DataImage that reports whether the
// image of spec is in a virtual drive of the machine.
const AttachedCondition = "Attached"

// Reasons of AttachedCondition.
const (
	// AttachedReason means that the image of spec is attached.
	AttachedReason = "Attached"
	// WaitingForPowerOnReason means that the image is attached or detached when the
	// machine is powered on the next time. A machine that runs needs a reboot for
	// that.
	WaitingForPowerOnReason = "WaitingForPowerOn"
	// HostPausedReason means that the host is paused, so that nothing is attached
	// or detached and a deleted DataImage stays.
	HostPausedReason = "HostPaused"
	// AttachFailedReason means that status.error says what went wrong.
	AttachFailedReason = "AttachFailed"
	// HostNotFoundReason means that there is no host of this name.
	HostNotFoundReason = "HostNotFound"
)

// DataImageSpec says which image the machine should see in a virtual drive.
type DataImageSpec struct {
	// url is where the image is: http, https, ftp, gopher or oci. Written by users.
	// +required
	// +kubebuilder:validation:Pattern=`(?i)^(https?|ftp|gopher|oci):`
	URL string `json:"url"`
}

// DataImageStatus is which image the machine sees. Written by the operator.
type DataImageStatus struct {
	// lastReconciled is when the operator last looked at the object.
	// +optional
	LastReconciled *metav1.Time `json:"lastReconciled,omitempty"`

	// attachedImage is the image that is attached. Unset means none.
	// +optional
	AttachedImage *AttachedImageReference `json:"attachedImage,omitempty"`

	// request is what the engine was asked for and has not finished yet. Unset means
	// nothing.
	// +optional
	Request *DataImageRequest `json:"request,omitempty"`

	// error is what went wrong with attaching or detaching. Unset means nothing.
	// +optional
	Error *DataImageError `json:"error,omitempty"`

	// conditions is Attached.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AttachedImageReference is an image that is attached.
type AttachedImageReference struct {
	// url is the image's URL when it was attached.
	// +required
	URL string `json:"url"`
}

// DataImageAction is what is done with an image.
// +kubebuilder:validation:Enum=attach;detach
type DataImageAction string

// Actions.
const (
	// DataImageAttach puts an image into a virtual drive.
	DataImageAttach DataImageAction = "attach"
	// DataImageDetach takes out what is there.
	DataImageDetach DataImageAction = "detach"
)

// DataImageRequest is a request to the engine. It is written before the engine is asked.
type DataImageRequest struct {
	// action is attach or detach.
	// +required
	Action DataImageAction `json:"action"`
	// url is the image to attach. Empty for detach.
	// +optional
	URL string `json:"url,omitempty"`
	// accepted is true when the engine accepted the request. While it is false, an
	// interruption may have kept the answer.
	// +optional
	Accepted bool `json:"accepted,omitempty"`
	// olderError is a fingerprint of the failure that the engine's node had before the request and
	// still had after the engine accepted it: it says nothing about the request. Empty means
	// none.
	// +optional
	OlderError string `json:"olderError,omitempty"`
	// lost is true when the machine had the image, and its drives are empty now: its BMC has lost it,
	// or a ramdisk took its place. The machine is powered on without it if it cannot be attached again.
	// +optional
	Lost bool `json:"lost,omitempty"`
}

// DataImageError says what went wrong with attaching or detaching an image.
type DataImageError struct {
	// count is how often it failed in a row. The wait before the next attempt grows
	// with it.
	// +required
	Count int `json:"count"`
	// message says what went wrong last and what to do about it.
	// +required
	Message string `json:"message"`
	// url is the image that could not be attached. Empty means that detaching failed.
	// +optional
	URL string `json:"url,omitempty"`
	// time is when it failed last. The wait before the next attempt begins there. Unset
	// means that there is no wait.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// lost is true when the machine had had the image before, so that it is powered on without it.
	// +optional
	Lost bool `json:"lost,omitempty"`
}

// DataImage is an image with data in a virtual drive of the BareMetalHost of the
// same name and namespace, while that is provisioned. It is attached, replaced or
// detached when the machine is powered on.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
type DataImage struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which image should be attached.
	// +optional
	Spec DataImageSpec `json:"spec,omitzero"`
	// status says which one is.
	// +optional
	Status DataImageStatus `json:"status,omitzero"`
}

// DataImageList is a list of images.
// +kubebuilder:object:root=true
type DataImageList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the images.
	Items []DataImage `json:"items"`
}
