package bmc

// Profile is how the BMCs of a vendor differ, apart from their protocols.
type Profile struct {
	Vendor       string // short, in lower case
	Manufacturer string // of the machines, as their firmware names it
	Resets       []ResetType
	// SamePower says that it is no error to power on what is on, or to power off what is off.
	SamePower bool
	// Targets are the boot targets, with the source that each boots from.
	Targets map[Target]Source
	// OnceOnly are the targets that a continuous override cannot have.
	OnceOnly []Target
	// FixedMode says that boot settings cannot change the boot mode.
	FixedMode bool
	// POSTLocksBoot says that boot settings cannot be changed during POST.
	POSTLocksBoot bool
	Slots         []Slot
	// ReplacesMedia says that a medium may be inserted into a slot that has one.
	ReplacesMedia bool
	// EjectsNothing says that ejecting from an empty slot succeeds.
	EjectsNothing bool
	// Attributes are the BIOS attributes.
	Attributes []Attribute
	// BIOSJobs says that changed attributes wait for a job, of which there is one at a time. A
	// change of secure boot then makes such a job, too.
	BIOSJobs bool
	RAID     RAID
	// BMCVersion and AdapterVersion are the firmware versions from the factory.
	BMCVersion, AdapterVersion string
}
