package ipmi

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Parameters of the boot options (IPMI 2.0, section 28.13, table 28-14).
const (
	parameterClearing    = 3 // when the BMC clears the boot flags by itself
	parameterAcknowledge = 4 // who has still to handle the boot flags
	parameterFlags       = 5

	// acknowledgeBIOS of parameter 4 is the bit of BIOS and POST, which clear it when they
	// have handled the boot flags.
	acknowledgeBIOS = 1 << 0

	// keepAfterTimeout of parameter 3: the flags outlive a minute without a start.
	keepAfterTimeout = 1 << 3
)

// bootDevice is a boot device of the Bare Metal API with its selector in the boot flags.
type bootDevice struct {
	name     string
	selector byte
}

// bootDevices are all boot devices of the driver, in the order of the Bare Metal API.
var bootDevices = []bootDevice{{"pxe", 1}, {"disk", 2}, {"cdrom", 5}, {"bios", 6}, {"safe", 3}}

// flags are the boot flags, parameter 5.
type flags struct {
	valid      bool
	persistent bool
	uefi       bool
	selector   byte
}

// flagsSize is the size of the parameter, in bytes.
const flagsSize = 5

func (f flags) encode() []byte {
	data := make([]byte, flagsSize)
	for i, set := range []bool{f.uefi, f.persistent, f.valid} {
		if set {
			data[0] |= 1 << (5 + i)
		}
	}
	data[1] = f.selector << 2
	return data
}

func decodeFlags(data []byte) flags {
	return flags{
		valid: data[0]&(1<<7) != 0, persistent: data[0]&(1<<6) != 0, uefi: data[0]&(1<<5) != 0,
		selector: data[1] >> 2 & 0x0F,
	}
}

// device returns the boot device in the words of the Bare Metal API. Without valid flags it is
// unknown.
func (f flags) device() node.BootDevice {
	i := slices.IndexFunc(bootDevices, func(row bootDevice) bool { return row.selector == f.selector })
	if !f.valid || i < 0 {
		return node.BootDevice{}
	}
	return node.BootDevice{Device: bootDevices[i].name, Persistent: &f.persistent}
}

// boots reports whether flags boot from the same device. The mode may differ, because BMCs that
// boot in one mode only need not keep it. Whether the flags are for one boot may differ, because
// some BMCs do not show it.
func (f flags) boots(want flags) bool { return f.valid && f.selector == want.selector }

func (f flags) String() string {
	if !f.valid {
		return "no boot device"
	}
	name, duration := fmt.Sprintf("device %d", f.selector), "once"
	if device := f.device(); device.Device != "" {
		name = device.Device
	}
	if f.persistent {
		duration = "for good"
	}
	return name + " " + duration
}

// BootDevices lists what can be asked for. A machine may have fewer.
func (Driver) BootDevices(*node.Node) []string {
	var names []string
	for _, row := range bootDevices {
		names = append(names, row.name)
	}
	return names
}

// BootDevice reads the boot flags. When they are not valid the device is unknown.
func (d Driver) BootDevice(ctx context.Context, n *node.Node) (node.BootDevice, error) {
	var device node.BootDevice
	err := d.with(ctx, n, "read boot device", driver.Turn{}, func(c *call) error {
		has, err := c.flags(ctx)
		device = has.device()
		return err
	})
	return device, err
}

// SetBootDevice sets the boot flags, and asks the firmware to handle them. Flags for one boot are
// sent even if the BMC shows them already: it may be about to clear those of an earlier request.
// After a call whose outcome is unknown, however, flags that the BMC shows count as sent by it.
func (d Driver) SetBootDevice(ctx context.Context, n *node.Node, device node.BootDevice, turn driver.Turn) (driver.Outcome, error) {
	i := slices.IndexFunc(bootDevices, func(row bootDevice) bool { return row.name == device.Device })
	if i < 0 {
		return driver.Outcome{}, node.Invalid("The driver ipmi has no boot device %q.", node.CutText(device.Device))
	}
	keeps, err := keepsFlags(n)
	if err != nil {
		return driver.Outcome{}, err
	}
	want := flags{
		valid: true, persistent: device.Persistent != nil && *device.Persistent, uefi: !bootsBIOS(n), selector: bootDevices[i].selector,
	}
	op := "set boot device to " + device.Device
	return driver.Outcome{}, d.with(ctx, n, op, turn, func(c *call) error {
		has, err := c.flags(ctx)
		if err != nil {
			return err
		}
		if err := c.keepFlags(ctx, keeps); err != nil {
			return err
		}
		if err := c.wantHandled(ctx); err != nil {
			return err
		}
		if has == want && (want.persistent || turn.Attempt == driver.Unknown) {
			return nil
		}
		if err := c.change(ctx, setBootOptions, append([]byte{parameterFlags}, want.encode()...)...); err != nil {
			return err
		}
		if has, err = c.flags(ctx); err == nil && !has.boots(want) {
			err = &node.DriverError{Op: op, Retryable: true, Reason: fmt.Sprintf("the BMC accepted %s and shows %s", want, has)}
		}
		return err
	})
}

// bootsBIOS reports whether the flags of a node are for BIOS mode: its boot mode is bios or,
// because this driver reads no boot mode, its capabilities say so. Others are booted in UEFI mode.
func bootsBIOS(n *node.Node) bool { return cmp.Or(n.BootMode, n.BootModeCapability()) == "bios" }

// flags reads the boot flags.
func (c *call) flags(ctx context.Context) (flags, error) {
	const version, wanted = 2, parameterFlags // an answer begins with its version and the parameter
	data, err := c.read(ctx, getBootOptions, wanted, 0, 0)
	if err != nil {
		return flags{}, err
	}
	if len(data) < version+2 {
		return flags{}, &node.DriverError{Op: "read boot device", Retryable: true, Refused: c.refused(), Reason: "the BMC answered without boot flags"}
	}
	return decodeFlags(data[version:]), nil
}

// keepFlags tells the BMC whether to keep the flags when nobody starts the machine within a minute.
// Not every BMC has the parameter; a BMC without it keeps the flags.
func (c *call) keepFlags(ctx context.Context, keeps bool) error {
	var events byte
	if keeps {
		events = keepAfterTimeout
	}
	_, err := c.read(ctx, setBootOptions, parameterClearing, events)
	if isRefusal(err) {
		return nil
	}
	return err
}

// wantHandled asks the firmware to handle the boot flags at the next boot. Firmware that reads
// the bit ignores the flags without it, and clears it afterwards; the BMC clears it when it
// starts. A BMC without the parameter has firmware that does not read it.
func (c *call) wantHandled(ctx context.Context) error {
	const mask, bits = acknowledgeBIOS, acknowledgeBIOS
	_, err := c.read(ctx, setBootOptions, parameterAcknowledge, mask, bits)
	if lacksParameter(err) {
		return nil
	}
	return err
}
