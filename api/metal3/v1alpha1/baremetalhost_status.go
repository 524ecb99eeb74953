package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BareMetalHostStatus is the observed state, and what the operator did.
// Conditions are the most precise; the other fields are kept in sync for clients that read only them.
type BareMetalHostStatus struct {
	// operationalStatus is the health of the host.
	// +required
	OperationalStatus OperationalStatus `json:"operationalStatus"`

	// errorType says which operation failed. Empty means none.
	// +optional
	ErrorType ErrorType `json:"errorType,omitempty"`

	// lastUpdated is when the operator last wrote this status. Unset means that
	// the host was never reconciled.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// hardwareProfile is the old profile in effect. Deprecated.
	// +optional
	HardwareProfile string `json:"hardwareProfile,omitempty"`

	// hardware is the result of inspection. HardwareData has the same; new
	// clients should read that. Deprecated.
	// +optional
	HardwareDetails *HardwareDetails `json:"hardware,omitempty"`

	// provisioning has the provisioning state and the settings in effect.
	// +required
	Provisioning ProvisionStatus `json:"provisioning"`

	// goodCredentials are the last BMC credentials that worked.
	// +optional
	GoodCredentials CredentialsStatus `json:"goodCredentials,omitzero"`

	// goodBMC is the BMC that goodCredentials are for, as spec.bmc.address names it, whatever the
	// spelling. Before the engine gets another BMC, the machine behind that is compared with the
	// host's. The operator writes it. Empty means that no BMC is known to be the host's.
	// +optional
	GoodBMC string `json:"goodBMC,omitempty"`

	// triedCredentials are the last BMC credentials that were tried.
	// +optional
	TriedCredentials CredentialsStatus `json:"triedCredentials,omitzero"`

	// errorMessage says what went wrong last and what to do about it. Empty
	// means that nothing is wrong.
	// +required
	ErrorMessage string `json:"errorMessage"`

	// poweredOn is the last observed power. For a host without a BMC it only
	// says that its agent answers or that it runs a deployed system; it never
	// proves that the machine is off.
	// +required
	PoweredOn bool `json:"poweredOn"`

	// operationHistory holds when the long operations began and ended.
	// +optional
	OperationHistory OperationHistory `json:"operationHistory,omitzero"`

	// errorCount is how often the current operation failed in a row. The wait
	// before the next attempt grows with it. The default is 0.
	// +required
	// +kubebuilder:default:=0
	ErrorCount int `json:"errorCount"`

	// provisioningFailCount is how often deploying the same image failed. The
	// default is 0.
	// +required
	// +kubebuilder:default:=0
	ProvisioningFailCount int `json:"provisioningFailCount"`

	// lastAttemptedImage is the image that provisioningFailCount counts for.
	// +optional
	LastAttemptedImage *Image `json:"lastAttemptedImage,omitempty"`

	// lastAttemptedCustomDeploy is the method of the same deployment. Empty means that it had
	// none.
	// +optional
	LastAttemptedCustomDeploy *CustomDeploy `json:"lastAttemptedCustomDeploy,omitempty"`

	// operation is the record of the current or last operation. Written by the operator.
	// +optional
	Operation OperationStatus `json:"operation,omitzero"`

	// updates is the record of changes of BIOS settings and firmware. Written by the operator.
	// +optional
	Updates UpdateStatus `json:"updates,omitzero"`

	// powerOffHolds are the annotations that keep the host powered off, and whether it is
	// known to be off since. Written by the operator.
	// +optional
	// +listType=map
	// +listMapKey=key
	PowerOffHolds []PowerOffHold `json:"powerOffHolds,omitempty"`

	// conditions describe the state of the host, since when it is so, and what
	// is missing.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProvisionStatus is the provisioning state of a host.
type ProvisionStatus struct {
	// state is the provisioning state.
	// +required
	State ProvisioningState `json:"state"`

	// ID is the UUID of the engine's node. Empty means that the engine does not
	// know the host.
	// +required
	ID string `json:"ID"`

	// image is what is deployed.
	// +optional
	Image Image `json:"image,omitzero"`

	// rootDeviceHints are the hints in effect.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// bootMode is the boot mode in effect.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// raid is the RAID configuration in effect.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// softwareRAID is true when the machine may have volumes of the operating system that it
	// was given for this host, also while raid does not show them. Those that raid shows count
	// without it. Written by the operator.
	// +optional
	SoftwareRAID bool `json:"softwareRAID,omitempty"`

	// firmware are the old firmware switches in effect. Deprecated.
	// +optional
	Firmware *FirmwareConfig `json:"firmware,omitempty"`

	// customDeploy is the deploy method in effect.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`
}

// CredentialsStatus says which version of which Secret was used.
type CredentialsStatus struct {
	// credentials refers to the Secret.
	// +optional
	Reference *corev1.SecretReference `json:"credentials,omitempty"`
	// credentialsVersion is the Secret's resource version.
	// +optional
	Version string `json:"credentialsVersion,omitempty"`
}

// OperationHistory holds when the long operations of a host last ran.
type OperationHistory struct {
	// register is the last registration.
	// +optional
	Register OperationMetric `json:"register,omitzero"`
	// inspect is the last inspection.
	// +optional
	Inspect OperationMetric `json:"inspect,omitzero"`
	// provision is the last deployment.
	// +optional
	Provision OperationMetric `json:"provision,omitzero"`
	// deprovision is the last removal of a deployment.
	// +optional
	Deprovision OperationMetric `json:"deprovision,omitzero"`
}

// OperationMetric holds when an operation began and ended.
type OperationMetric struct {
	// start is when the operation began; null means never.
	// +optional
	// +nullable
	Start metav1.Time `json:"start,omitempty"`
	// end is when the operation ended; null while it runs.
	// +optional
	// +nullable
	End metav1.Time `json:"end,omitempty"`
}
