package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Finalizers of PreprovisioningImages.
const (
	// PreprovisioningImageFinalizer keeps a deleted PreprovisioningImage until its
	// image controller has removed what it built.
	PreprovisioningImageFinalizer = "preprovisioningimage.metal3.io"
	// HostPreprovisioningImageFinalizer keeps a deleted PreprovisioningImage while
	// its host may boot the image.
	HostPreprovisioningImageFinalizer = "baremetalhost.metal3.io/preprovisioningImage"
)

// Condition types of a PreprovisioningImage. An image controller sets both.
const (
	// ImageReadyCondition reports whether the image of status can be downloaded and
	// is the one that spec asks for.
	ImageReadyCondition = "Ready"
	// ImageErrorCondition reports whether the image cannot be built.
	ImageErrorCondition = "Error"
)

// Reasons of the conditions of a PreprovisioningImage.
const (
	// ImageSuccessReason means that the image is ready.
	ImageSuccessReason = "ImageSuccess"
	// ImageConfigurationErrorReason means that the image controller cannot build
	// what spec asks for, for instance because of the formats.
	ImageConfigurationErrorReason = "ConfigurationError"
	// ImageMissingNetworkDataReason means that the Secret with the network
	// configuration does not exist.
	ImageMissingNetworkDataReason = "MissingNetworkData"
	// ImageBuildInvalidReason means that the image controller refused the network
	// configuration or another input.
	ImageBuildInvalidReason = "ImageBuildInvalid"
)

// ImageFormat is the format of a ramdisk.
// +kubebuilder:validation:Enum=iso;initrd
type ImageFormat string

// Formats of ramdisks.
const (
	// ImageFormatISO is an image for virtual media.
	ImageFormatISO ImageFormat = "iso"
	// ImageFormatInitrd is an initial ramdisk, for a kernel that is loaded with it.
	ImageFormatInitrd ImageFormat = "initrd"
)

// PreprovisioningImageSpec says which ramdisk a host needs. Written by the host
// operator.
type PreprovisioningImageSpec struct {
	// networkDataName is the name of the Secret with the network configuration of
	// the ramdisk, in the object's namespace. Unset, the ramdisk uses DHCP.
	// +optional
	NetworkDataName string `json:"networkDataName,omitempty"`
	// architecture is the CPU architecture, for instance x86_64.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// acceptFormats are the formats that the host can boot. The order has no
	// meaning.
	// +optional
	// +listType=atomic
	AcceptFormats []ImageFormat `json:"acceptFormats,omitempty"`
}

// PreprovisioningImageStatus is the ramdisk that was built. Written by the image
// controller.
type PreprovisioningImageStatus struct {
	// imageUrl is where the image can be downloaded.
	// +optional
	ImageURL string `json:"imageUrl,omitempty"`
	// kernelUrl is where the kernel for an initrd can be downloaded. Unset means
	// the engine's own kernel.
	// +optional
	KernelURL string `json:"kernelUrl,omitempty"`
	// extraKernelParams are kernel parameters that an initrd needs beside the
	// engine's own.
	// +optional
	ExtraKernelParams string `json:"extraKernelParams,omitempty"`
	// format is the format of the image at imageUrl.
	// +optional
	Format ImageFormat `json:"format,omitempty"`
	// networkData is the version of the Secret that is in the image.
	// +optional
	NetworkData SecretStatus `json:"networkData,omitzero"`
	// architecture is the CPU architecture of the image.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// conditions are Ready and Error.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SecretStatus is a version of a Secret.
type SecretStatus struct {
	// name is the Secret's name.
	// +optional
	Name string `json:"name,omitempty"`
	// version is the Secret's resource version.
	// +optional
	Version string `json:"version,omitempty"`
}

// PreprovisioningImage asks for the ramdisk of the BareMetalHost of the same name
// and namespace. The host operator writes spec, and an image controller writes
// status. A site may run an image controller of its own, so both parts keep
// exactly this form.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ppimg
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the image can be used"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Why it can or cannot be used"
type PreprovisioningImage struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which ramdisk is needed.
	// +optional
	Spec PreprovisioningImageSpec `json:"spec,omitzero"`
	// status is the ramdisk that was built.
	// +optional
	Status PreprovisioningImageStatus `json:"status,omitzero"`
}

// PreprovisioningImageList is a list of ramdisks.
// +kubebuilder:object:root=true
type PreprovisioningImageList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ramdisks.
	Items []PreprovisioningImage `json:"items"`
}
