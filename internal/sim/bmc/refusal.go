package bmc

import "strings"

// Reason is why a BMC does not do what it is asked.
type Reason string

// The reasons.
const (
	AlreadyOn          Reason = "the machine has power"
	AlreadyOff         Reason = "the machine has no power"
	UnknownReset       Reason = "there is no such reset type"
	UnknownTarget      Reason = "there is no such boot target"
	UnknownEnabled     Reason = "there is no such state of the boot override"
	UnknownMode        Reason = "there is no such boot mode"
	FixedMode          Reason = "the boot mode cannot be changed here"
	NotContinuous      Reason = "this boot target is for one boot only"
	DuringPOST         Reason = "the machine is in POST"
	UnknownAttribute   Reason = "there is no such BIOS attribute"
	ReadOnlyAttribute  Reason = "the BIOS attribute is read-only"
	BadAttribute       Reason = "the BIOS attribute cannot have this value"
	PendingBIOSJob     Reason = "BIOS changes are scheduled already"
	NothingPending     Reason = "there are no BIOS changes to schedule"
	SlotOccupied       Reason = "a medium is in the slot already"
	SlotEmpty          Reason = "there is no medium in the slot"
	BadImage           Reason = "the image has no URL that the BMC can open"
	UnknownKeysReset   Reason = "there is no such reset of secure boot keys"
	UnknownComponent   Reason = "there is no such firmware component"
	UnknownTransferURI Reason = "firmware cannot be fetched from there"
	UnknownApplyTime   Reason = "the RAID controller does not choose this time"
	UnknownRAIDType    Reason = "there is no such RAID type"
	BadDrives          Reason = "the RAID type cannot have these drives"
	DriveInUse         Reason = "a drive has no room left"
	BadCapacity        Reason = "the drives have not that much room"
	BadDestination     Reason = "events cannot be sent there"
	PendingVolumeJob   Reason = "a change of a volume is scheduled already"
	VolumeBusy         Reason = "the volume is being deleted already"
)

// RefusedError is the error of a call that the BMC refused, so that it did nothing.
type RefusedError struct {
	Reason   Reason
	Property string // the one that is wrong, if any
	Value    string // the value that was asked for
}

// Error says why in words.
func (r *RefusedError) Error() string {
	text := string(r.Reason)
	if named := strings.TrimSpace(r.Property + " " + r.Value); named != "" {
		text += ": " + named
	}
	return text
}
