package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BareMetalHostSpec is the wanted state of a machine.
type BareMetalHostSpec struct {
	// taints are kept for old manifests and have no effect. Deprecated.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// bmc says how to reach the board management controller. Unset, or with
	// both address and credentialsName empty, the machine has none: it can be
	// imported after discovery, but never powered by the operator. Written by
	// users.
	// +optional
	BMC BMCDetails `json:"bmc,omitzero"`

	// raid is the wanted RAID configuration, applied while the host is
	// prepared. Unset leaves the disks as they are. Written by users.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// firmware holds three old firmware switches. Use HostFirmwareSettings
	// instead. Deprecated.
	// +optional
	Firmware *FirmwareConfig `json:"firmware,omitempty"`

	// hardwareProfile names an old set of defaults for the root disk: unknown,
	// libvirt, dell, dell-raid, openstack or empty. Use rootDeviceHints
	// instead. Deprecated.
	// +optional
	HardwareProfile string `json:"hardwareProfile,omitempty"`

	// rootDeviceHints select the disk that images are written to. Unset leaves
	// the choice to hardwareProfile and then to the agent, which takes the
	// smallest disk of at least 4 GiB. Written by users.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// bootMode is the firmware mode that the machine boots in, from the next
	// deployment on. Unset behaves as UEFI. Written by users.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// bootMACAddress is the MAC address of the NIC that boots the ramdisk, six
	// pairs of hexadecimal digits separated by colons; the schema lets the 8 and
	// 20 pairs of other networks pass, as that of Metal3 does. It cannot change
	// once set, except in letter case. Written by users and by discovery.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{2}((:[0-9a-fA-F]{2}){5}|(:[0-9a-fA-F]{2}){7}|(:[0-9a-fA-F]{2}){19})$`
	// +kubebuilder:validation:MaxLength=59
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// online is the wanted power state. It has no effect on hosts without a
	// BMC. Written by users and by the Cluster API provider.
	// +required
	Online bool `json:"online"`

	// consumerRef names the object that uses this host; the host operator
	// never reads it. Unset means that the host is free. Written by the Cluster
	// API provider or by users.
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// image is what to deploy. Setting it on an available host starts the
	// deployment; removing it, or changing its URL, removes what is deployed.
	// +optional
	Image *Image `json:"image,omitempty"`

	// userData refers to the Secret with the configuration that the deployed
	// system reads at first boot, in the key userData or value.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// preprovisioningNetworkDataName is the name of the Secret with the network
	// configuration of the ramdisk. Unset, the ramdisk uses DHCP.
	// +optional
	PreprovisioningNetworkDataName string `json:"preprovisioningNetworkDataName,omitempty"`

	// networkData refers to the Secret with the network configuration of the
	// deployed system. Unset falls back to preprovisioningNetworkDataName.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// metaData refers to the Secret with metadata of the deployed system; its
	// keys override those that the operator computes.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// description is free text for people.
	// +optional
	Description string `json:"description,omitempty"`

	// externallyProvisioned says that the machine already runs a system which
	// must not be changed. It may be set at creation or while the host is
	// available. The default is false.
	// +optional
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`

	// automatedCleaningMode says what happens to the disks when a deployment is
	// removed and before a host becomes available for the first time:
	// "metadata" wipes partition tables, "disabled" touches nothing.
	// +optional
	// +kubebuilder:default:=metadata
	AutomatedCleaningMode AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`

	// customDeploy names another way to deploy than writing an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// architecture is the CPU architecture as the engine spells it, for
	// instance x86_64 or aarch64. Unset, the operator writes what the inventory
	// reports.
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// disablePowerOff forbids to power the machine off; reboots are allowed. It
	// conflicts with online: false. The default is false.
	// +optional
	DisablePowerOff bool `json:"disablePowerOff,omitempty"`

	// inspectionMode says how the hardware is read: "agent" boots the ramdisk,
	// "fast" reads the BMC, "disabled" reads nothing. Unset behaves as agent.
	// +optional
	InspectionMode InspectionMode `json:"inspectionMode,omitempty"`

	// networkInterfaces describe how NICs are attached to the network. The
	// operator stores them but does not use them yet.
	// +optional
	// +listType=atomic
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitempty"`
}

// BMCDetails say how to reach a board management controller. In a manifest
// both address and credentialsName are required when bmc is there at all;
// empty values count as absent.
type BMCDetails struct {
	// address is "[scheme[+http|+https]://]host[:port][/system-path]"; without
	// a scheme it means IPMI. Empty means that there is no BMC.
	// +required
	Address string `json:"address"`

	// credentialsName is the name of a Secret with the keys username and
	// password, in the namespace of the host.
	// +required
	CredentialsName string `json:"credentialsName"`

	// disableCertificateVerification accepts any certificate of the BMC. It
	// concerns Redfish only. The default is false.
	// +optional
	DisableCertificateVerification bool `json:"disableCertificateVerification,omitempty"`
}

// BootMode is a firmware boot mode.
// +kubebuilder:validation:Enum=UEFI;UEFISecureBoot;legacy
type BootMode string

// Boot modes.
const (
	// BootModeUEFI boots in UEFI mode; it is the default.
	BootModeUEFI BootMode = "UEFI"
	// BootModeUEFISecureBoot boots in UEFI mode with signatures verified.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	// BootModeLegacy boots in BIOS mode.
	BootModeLegacy BootMode = "legacy"
)

// AutomatedCleaningMode says what happens to disks between deployments.
// +kubebuilder:validation:Enum=metadata;disabled
type AutomatedCleaningMode string

// Cleaning modes.
const (
	// CleaningModeMetadata wipes partition tables.
	CleaningModeMetadata AutomatedCleaningMode = "metadata"
	// CleaningModeDisabled leaves disks as they are.
	CleaningModeDisabled AutomatedCleaningMode = "disabled"
)

// InspectionMode says how hardware is read.
// +kubebuilder:validation:Enum=disabled;agent;fast
type InspectionMode string

// Inspection modes.
const (
	// InspectionModeDisabled reads nothing.
	InspectionModeDisabled InspectionMode = "disabled"
	// InspectionModeAgent boots the ramdisk; it is the default.
	InspectionModeAgent InspectionMode = "agent"
	// InspectionModeFast reads the BMC.
	InspectionModeFast InspectionMode = "fast"
)

// RootDeviceHints select a disk. A disk has to match all hints that are set.
type RootDeviceHints struct {
	// deviceName is a path such as /dev/sda or /dev/disk/by-path/... and must
	// match exactly.
	// +optional
	DeviceName string `json:"deviceName,omitempty"`
	// hctl is the SCSI address, for instance 0:0:0:0, and must match exactly.
	// +optional
	HCTL string `json:"hctl,omitempty"`
	// model must occur in the disk's model.
	// +optional
	Model string `json:"model,omitempty"`
	// vendor must occur in the disk's vendor.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// serialNumber must match exactly.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// minSizeGigabytes is the least size in GiB, at least 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinSizeGigabytes int `json:"minSizeGigabytes,omitempty"`
	// wwn is the World Wide Name and must match exactly.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name with the vendor's extension and
	// must match exactly.
	// +optional
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// wwnVendorExtension is the vendor's extension alone and must match exactly.
	// +optional
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// rotational is true for spinning disks, false for solid state. Unset
	// matches both.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// FirmwareConfig holds old firmware switches. Deprecated.
type FirmwareConfig struct {
	// virtualizationEnabled switches the CPU's virtualization support.
	// +optional
	// +kubebuilder:validation:Enum=true;false
	VirtualizationEnabled *bool `json:"virtualizationEnabled,omitempty"`
	// simultaneousMultithreadingEnabled switches hyper-threading.
	// +optional
	// +kubebuilder:validation:Enum=true;false
	SimultaneousMultithreadingEnabled *bool `json:"simultaneousMultithreadingEnabled,omitempty"`
	// sriovEnabled switches single-root I/O virtualization.
	// +optional
	// +kubebuilder:validation:Enum=true;false
	SriovEnabled *bool `json:"sriovEnabled,omitempty"`
}

// BareMetalHost is a machine.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bmh;bmhost
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io=
// +kubebuilder:metadata:labels=clusterctl.cluster.x-k8s.io/move-hierarchy=
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.operationalStatus",description="Operational status",priority=1
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.provisioning.state",description="Provisioning state"
// +kubebuilder:printcolumn:name="Consumer",type="string",JSONPath=".spec.consumerRef.name",description="Who uses the host"
// +kubebuilder:printcolumn:name="BMC",type="string",JSONPath=".spec.bmc.address",description="Address of the board management controller",priority=1
// +kubebuilder:printcolumn:name="Online",type="string",JSONPath=".spec.online",description="Wanted power state"
// +kubebuilder:printcolumn:name="Error",type="string",JSONPath=".status.errorType",description="Which operation failed"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type BareMetalHost struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the wanted state.
	// +optional
	Spec BareMetalHostSpec `json:"spec,omitzero"`
	// status is the observed state, and what the operator did.
	// +optional
	Status BareMetalHostStatus `json:"status,omitzero"`
}

// IsPaused reports whether nothing may be done with the host: it is paused, or it was moved to another
// cluster and is deleted here.
func (h *BareMetalHost) IsPaused() bool {
	_, paused := h.Annotations[PausedAnnotation]
	_, moved := h.Annotations[DeletedForMoveAnnotation]
	return paused || moved
}

// HasBMC reports whether any BMC detail is set. Empty strings count as absent.
func (h *BareMetalHost) HasBMC() bool {
	return h.Spec.BMC.Address != "" || h.Spec.BMC.CredentialsName != ""
}

// IsHeldOff reports whether annotations keep the machine powered off: those of RebootAnnotationPrefix, on a host whose
// power can be controlled. While they do, nothing begins on an available host.
func (h *BareMetalHost) IsHeldOff() bool {
	if _, detached := h.Annotations[DetachedAnnotation]; detached || !h.HasBMC() || h.Spec.DisablePowerOff {
		return false
	}
	for key := range h.Annotations {
		if strings.HasPrefix(key, RebootAnnotationPrefix) {
			return true
		}
	}
	return false
}

// SupportsPowerControl reports whether the machine can be powered on and off: it has a BMC, and
// that is not the BMC of another machine as far as the condition IdentityVerified tells.
// spec.disablePowerOff may forbid it nevertheless.
func (h *BareMetalHost) SupportsPowerControl() bool {
	return h.HasBMC() && !meta.IsStatusConditionFalse(h.Status.Conditions, IdentityVerifiedCondition)
}

// BareMetalHostList is a list of machines.
// +kubebuilder:object:root=true
type BareMetalHostList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the machines.
	Items []BareMetalHost `json:"items"`
}
