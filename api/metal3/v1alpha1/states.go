package v1alpha1

// OperationalStatus is the host's health in one word.
// +kubebuilder:validation:Enum="";OK;discovered;error;delayed;detached;servicing
type OperationalStatus string

// Operational statuses.
const (
	// OperationalStatusNone is the status before the first reconciliation.
	OperationalStatusNone OperationalStatus = ""
	// OperationalStatusOK means that nothing is wrong.
	OperationalStatusOK OperationalStatus = "OK"
	// OperationalStatusDiscovered means that the host has no BMC details and is
	// not imported yet.
	OperationalStatusDiscovered OperationalStatus = "discovered"
	// OperationalStatusError means that status.errorType says what is wrong.
	OperationalStatusError OperationalStatus = "error"
	// OperationalStatusDelayed means that the host waits for a free slot.
	OperationalStatusDelayed OperationalStatus = "delayed"
	// OperationalStatusDetached means that the engine no longer knows the host.
	OperationalStatusDetached OperationalStatus = "detached"
	// OperationalStatusServicing means that a live update is running.
	OperationalStatusServicing OperationalStatus = "servicing"
)

// ErrorType says which operation of a host failed.
// +kubebuilder:validation:Enum="";"provisioned registration error";"registration error";"inspection error";"preparation error";"provisioning error";"power management error";"servicing error";"detach error"
type ErrorType string

// Error types.
const (
	// ErrorNone means that no operation failed.
	ErrorNone ErrorType = ""
	// ErrorProvisionedRegistration means that adopting a provisioned host failed.
	ErrorProvisionedRegistration ErrorType = "provisioned registration error"
	// ErrorRegistration means that the engine could not take the host over.
	ErrorRegistration ErrorType = "registration error"
	// ErrorInspection means that the hardware could not be read.
	ErrorInspection ErrorType = "inspection error"
	// ErrorPreparation means that the host could not be made available.
	ErrorPreparation ErrorType = "preparation error"
	// ErrorProvisioning means that deploying or undeploying failed.
	ErrorProvisioning ErrorType = "provisioning error"
	// ErrorPowerManagement means that reading or changing the power failed.
	ErrorPowerManagement ErrorType = "power management error"
	// ErrorServicing means that a live update failed.
	ErrorServicing ErrorType = "servicing error"
	// ErrorDetach means that the engine did not let the host go.
	ErrorDetach ErrorType = "detach error"
)

// ProvisioningState is a host's place in its life. The schema does not restrict
// it, so that older and newer operators can share a cluster.
type ProvisioningState string

// Provisioning states.
const (
	// StateNone is the state before the first reconciliation.
	StateNone ProvisioningState = ""
	// StateUnmanaged means that there is neither a BMC nor a node of the
	// engine for this host.
	StateUnmanaged ProvisioningState = "unmanaged"
	// StateImporting means that the host takes over what the engine found out
	// about its machine.
	StateImporting ProvisioningState = "importing"
	// StateRegistering means that the BMC details are being checked.
	StateRegistering ProvisioningState = "registering"
	// StateMatchProfile is read from older clusters and never written.
	StateMatchProfile ProvisioningState = "match profile"
	// StateInspecting means that the hardware is being read.
	StateInspecting ProvisioningState = "inspecting"
	// StatePreparing means that the host is made fit for use.
	StatePreparing ProvisioningState = "preparing"
	// StateReady is the older word for available, read and never written.
	StateReady ProvisioningState = "ready"
	// StateAvailable means that the host can be claimed.
	StateAvailable ProvisioningState = "available"
	// StateProvisioning means that an image is being deployed.
	StateProvisioning ProvisioningState = "provisioning"
	// StateProvisioned means that the host runs what its spec asked for.
	StateProvisioned ProvisioningState = "provisioned"
	// StateExternallyProvisioned means that somebody else deployed the host.
	StateExternallyProvisioned ProvisioningState = "externally provisioned"
	// StateDeprovisioning means that the image is being removed.
	StateDeprovisioning ProvisioningState = "deprovisioning"
	// StatePoweringOffBeforeDelete means that a deleted host is switched off.
	StatePoweringOffBeforeDelete ProvisioningState = "powering off before delete"
	// StateDeleting means that the engine is asked to forget the host.
	StateDeleting ProvisioningState = "deleting"
)
