package v1alpha1

// Condition types of a BareMetalHost. Each carries a reason of the list below
// it, a sentence for people, and the generation it was computed from.
const (
	// ManageableCondition reports whether the engine can work on the host.
	ManageableCondition = "Manageable"
	// ProvisionedCondition reports whether the host runs a deployed image.
	ProvisionedCondition = "Provisioned"
	// ReadyCondition reports whether the host does what its spec asks for.
	ReadyCondition = "Ready"
	// AvailableForProvisioningCondition reports whether the host can be deployed
	// right now.
	AvailableForProvisioningCondition = "AvailableForProvisioning"
	// ProgressingCondition reports whether something is being done, or what the
	// host waits for.
	ProgressingCondition = "Progressing"
	// HealthyCondition reports the health of the hardware.
	HealthyCondition = "Healthy"
	// PowerManagementSupportedCondition reports whether power can be controlled.
	PowerManagementSupportedCondition = "PowerManagementSupported"
	// IdentityVerifiedCondition reports whether the BMC of a host belongs to the machine
	// that was inspected before it had a BMC. Other hosts do not have it.
	IdentityVerifiedCondition = "IdentityVerified"
	// UpdatePendingCondition reports whether firmware or settings wait.
	UpdatePendingCondition = "UpdatePending"
)

// Reasons of ManageableCondition.
const (
	// ManageableReason means that the engine can work on the host.
	ManageableReason = "Manageable"
	// NotManagedReason means that the engine does not know the host.
	NotManagedReason = "NotManaged"
	// RegisteringReason means that the engine gets to know the host.
	RegisteringReason = "Registering"
	// RegistrationFailedReason means that the engine could not take it over.
	RegistrationFailedReason = "RegistrationFailed"
	// PowerFailureReason means that its power cannot be read or changed.
	PowerFailureReason = "PowerFailure"
	// EngineUnreachableReason means that the engine did not answer.
	EngineUnreachableReason = "EngineUnreachable"
	// EngineDeniedReason means that the engine refuses the operator's credentials.
	EngineDeniedReason = "EngineDenied"
)

// Reasons of ProvisionedCondition and ReadyCondition.
const (
	// ProvisionedReason means that the host runs what its spec asked for.
	ProvisionedReason = "Provisioned"
	// NotProvisionedReason means that nothing is deployed.
	NotProvisionedReason = "NotProvisioned"
	// ProvisioningReason means that an image is being deployed.
	ProvisioningReason = "Provisioning"
	// ErrorReason means that status.errorMessage says what is wrong.
	ErrorReason = "Error"
	// DetachedReason means that the engine no longer knows the host.
	DetachedReason = "Detached"
	// ServicingReason means that a live update is running.
	ServicingReason = "Servicing"
)

// Reasons of AvailableForProvisioningCondition.
const (
	// AvailableReason means that the host can be deployed now.
	AvailableReason = "Available"
	// NotAvailableReason means that the host is in another state.
	NotAvailableReason = "NotAvailable"
	// NotManageableReason means that the engine cannot work on the host.
	NotManageableReason = "NotManageableReason"
	// InspectingReason means that the hardware is being read.
	InspectingReason = "Inspecting"
	// AgentNotConnectedReason means that the host has no BMC and its ramdisk
	// agent has sent no heartbeat recently, so that nothing can start a
	// deployment.
	AgentNotConnectedReason = "AgentNotConnected"
)

// Reasons of ProgressingCondition beside RegisteringReason, InspectingReason,
// ProvisioningReason, ServicingReason and DetachedReason.
const (
	// PreparingReason means that the host is being prepared for use.
	PreparingReason = "Preparing"
	// DeprovisioningReason means that the image is being removed.
	DeprovisioningReason = "Deprovisioning"
	// PoweringOffBeforeDeleteReason means that a deleted host is switched off.
	PoweringOffBeforeDeleteReason = "PoweringOffBeforeDelete"
	// DeletingReason means that the host's node is being deleted from the engine.
	DeletingReason = "Deleting"
	// NotProgressingReason means that there is nothing to do, or that nothing
	// can be done before a person does what the message says.
	NotProgressingReason = "NotProgressing"
	// ImportingReason means that the inventory of the engine is being imported.
	ImportingReason = "Importing"
	// WaitingForManualBootReason means that a person has to boot the machine.
	WaitingForManualBootReason = "WaitingForManualBoot"
	// QueuedReason means that the host waits for a free slot.
	QueuedReason = "Queued"
)

// Reasons of HealthyCondition.
const (
	// HealthyReason means that the hardware reports no fault.
	HealthyReason = "Healthy"
	// HealthUnknownReason means that the health of the hardware is not known.
	HealthUnknownReason = "Unknown"
	// HealthWarningReason means that the hardware reports a warning.
	HealthWarningReason = "Warning"
	// HealthCriticalReason means that the hardware reports a critical fault.
	HealthCriticalReason = "CriticalError"
)

// Reasons of PowerManagementSupportedCondition.
const (
	// PowerSupportedReason means that power can be read and changed.
	PowerSupportedReason = "Supported"
	// NoBMCReason means that the host has no BMC.
	NoBMCReason = "NoBMC"
	// PowerOffDisabledReason means that spec.disablePowerOff is set.
	PowerOffDisabledReason = "PowerOffDisabled"
)

// Reasons of IdentityVerifiedCondition.
const (
	// IdentityVerifiedReason means that nothing that both tell differs.
	IdentityVerifiedReason = "Verified"
	// IdentityMismatchReason means that the BMC belongs to another machine. The host is not
	// managed through it.
	IdentityMismatchReason = "IdentityMismatch"
	// IdentityUnverifiedReason means that the BMC or the engine cannot tell. The host is
	// managed through it.
	IdentityUnverifiedReason = "IdentityUnverified"
)

// Reasons of UpdatePendingCondition.
const (
	// UpdateWaitingForRebootReason means that the update runs at the next reboot.
	UpdateWaitingForRebootReason = "WaitingForReboot"
	// UpdateBlockedByPolicyReason means that no policy allows live updates.
	UpdateBlockedByPolicyReason = "BlockedByPolicy"
	// UpdateBlockedByFencingReason means that the host is held powered off.
	UpdateBlockedByFencingReason = "BlockedByFencing"
	// UpdateEngineTooOldReason means that the engine cannot service nodes.
	UpdateEngineTooOldReason = "EngineTooOld"
	// UpdateWaitingForRamdiskReason means that there is no ramdisk yet that the machine can
	// boot for it.
	UpdateWaitingForRamdiskReason = "WaitingForRamdisk"
	// UpdateNodeInMaintenanceReason means that the engine's node is in maintenance.
	UpdateNodeInMaintenanceReason = "NodeInMaintenance"
	// UpdateNotComparedReason means that nobody has compared what is asked for with the machine.
	UpdateNotComparedReason = "NotCompared"
	// UpdateHostDetachedReason means that the host is detached.
	UpdateHostDetachedReason = "HostDetached"
	// UpdateRunningReason means that the update is being applied.
	UpdateRunningReason = "Running"
	// UpdateFailedReason means that the update failed.
	UpdateFailedReason = "Failed"
	// UpToDateReason means that nothing waits.
	UpToDateReason = "UpToDate"
)
