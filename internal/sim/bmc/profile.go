package bmc

// Profile is how the BMCs of a vendor differ, apart from their protocols.
type Profile struct {
	Vendor       string // short, in lower case
	Manufacturer string // of the machines, as their firmware names it
	Resets       []ResetType
	// SamePower says that powering on what is on, and off what is off, succeeds.
	SamePower bool
	// Targets are the boot targets and what each boots from.
	Targets map[Target]Source
	// OnceOnly are the targets that no continuous override can have.
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
	// Attributes are those of the BIOS.
	Attributes []Attribute
	// BIOSJobs says that changed attributes wait for a job, of which there is one at a time, and
	// that a change of secure boot makes such a job.
	BIOSJobs bool
	RAID     RAID
	// BMCVersion and AdapterVersion are the firmware versions from the factory.
	BMCVersion, AdapterVersion string
}
