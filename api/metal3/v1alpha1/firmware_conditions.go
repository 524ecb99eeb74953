package v1alpha1

// Condition types of HostFirmwareSettings and HostFirmwareComponents.
const (
	// ChangeDetectedCondition reports whether spec asks for something that the
	// machine does not have yet.
	ChangeDetectedCondition = "ChangeDetected"
	// ValidCondition reports whether the machine can be given what spec asks
	// for. Nothing of an invalid spec is applied.
	ValidCondition = "Valid"
)

// Reasons of the conditions of HostFirmwareSettings.
const (
	// SettingsSuccessReason means that the condition was determined, whether it
	// is true or false.
	SettingsSuccessReason = "Success"
	// SettingsConfigurationErrorReason means that a setting in spec does not
	// exist on the machine, or cannot have the value.
	SettingsConfigurationErrorReason = "ConfigurationError"
)

// Reasons of the conditions of HostFirmwareComponents.
const (
	// ComponentsOKReason means that the condition was determined, whether it is
	// true or false.
	ComponentsOKReason = "OK"
	// InvalidComponentReason means that spec names a component that the machine
	// does not have.
	InvalidComponentReason = "InvalidComponent"
)
