package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Hardware returns the machine's settings as they were last read.
func (c *Conductor) Hardware(ctx context.Context, ident string) (node.Hardware, error) {
	var hardware node.Hardware
	err := c.store.Read(ctx, func(tx *store.Tx) error {
		n, err := tx.Node(ident)
		if err != nil {
			return err
		}
		hardware, err = tx.Hardware(n.ID)
		return err
	})
	return hardware, err
}

// settingsReading is the machine's settings as one attempt has read them. What could
// not be read is nil or empty.
type settingsReading struct {
	bios       []node.BIOSSetting
	firmware   []node.FirmwareComponent
	unread     bool // some of the firmware could not be read
	bootMode   string
	secureBoot *bool
	vendor     string
	health     *string
	raid       *node.Object
}

// readSettings returns the operation that reads the settings of a machine. They only
// inform: what cannot be read stays as it was stored, and the work goes on, even when
// a driver panics. They are read before the node is manageable or clean, because clients
// expect them from then on.
func (c *Conductor) readSettings(wanted bool) runner.Operation {
	return runner.Operation{
		Ref: runner.Ref{Name: settingsName}, Skip: !wanted, Within: settingsWithin,
		Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
			reading, err := c.readHardware(ctx, n)
			if err != nil && ctx.Err() == nil {
				c.log.Warn("Settings of a machine could not be read", "node", n.UUID, "err", err)
			}
			return reading.store, nil
		},
	}
}

// readSettingsLeft is readSettings after steps that failed or were aborted. If a RAID step is
// among them, the reading has as much time as that step had for the volumes, because the step may
// have left some.
func (c *Conductor) readSettingsLeft(n *node.Node, f flow) runner.Operation {
	read := c.readSettings(leavesSettings(n, f))
	if hasStepOf(n, f, node.RAIDInterface.String()) {
		read.Within = max(settingsWithin, c.storageWithin())
	}
	return read
}

// readHardware reads all settings that the node's interfaces support. The error says
// which ones could not be read.
func (c *Conductor) readHardware(ctx context.Context, n *node.Node) (r settingsReading, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("internal error in the driver: %v\n%s", panicked, debug.Stack())
		}
	}()
	err = errors.Join(
		readBy(c, n, node.BIOSInterface, "BIOS settings", func(bios driver.BIOS) (err error) {
			r.bios, err = bounded(bios.BIOSSettings(ctx, n))
			return err
		}),
		readBy(c, n, node.FirmwareInterface, "firmware", func(firmware driver.Firmware) (err error) {
			r.firmware, err = bounded(firmware.FirmwareComponents(ctx, n))
			r.unread = err != nil
			return err
		}),
		readBy(c, n, node.ManagementInterface, "boot mode", func(modes driver.BootModes) error {
			mode, err := modes.BootMode(ctx, n)
			r.bootMode = node.CutText(mode)
			return err
		}),
		readBy(c, n, node.ManagementInterface, "secure boot", func(secure driver.SecureBoot) error {
			on, err := secure.SecureBoot(ctx, n)
			if err == nil {
				r.secureBoot = &on
			}
			return err
		}),
		readBy(c, n, node.ManagementInterface, "vendor", func(detector driver.VendorDetector) error {
			vendor, err := detector.DetectVendor(ctx, n)
			r.vendor = node.CutText(vendor)
			return err
		}),
		readBy(c, n, node.ManagementInterface, "health", func(reader driver.HealthReader) error {
			health, err := reader.Health(ctx, n)
			if err == nil {
				r.health = &health
			}
			return err
		}),
		readBy(c, n, node.RAIDInterface, "RAID volumes", func(raid driver.RAID) error {
			config, err := raid.RAIDConfig(ctx, n)
			if err == nil && len(config) > maxSettings {
				err = fmt.Errorf("they have %d bytes, more than the %d that are kept", len(config), maxSettings)
			}
			if err == nil {
				r.raid = &config
			}
			return err
		}),
	)
	return r, err
}

// readBy reads something with an ability of one of the node's interfaces, unless the
// interface lacks that ability.
func readBy[A any](c *Conductor, n *node.Node, kind node.InterfaceKind, what string, read func(A) error) error {
	ability, unable := driver.Ability[A](c.drivers, n, kind, what)
	if unable != nil {
		return nil //nolint:nilerr // an interface without the ability has nothing to read
	}
	if err := read(ability); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

// maxSettings is the limit of one list of a machine's settings, and maxSetting that of one
// entry, as JSON, in bytes.
const maxSettings, maxSetting = 1 << 20, 32 << 10

// bounded returns the entries of a list that fit into maxSettings and maxSetting. No real machine
// exceeds them. The error joins unread, which is what went wrong while the list was read, with the
// number of entries that are left out. If all are left out, the list is nil, as if it could not be
// read.
func bounded[T any](list []T, unread error) ([]T, error) {
	kept, left := make([]T, 0, len(list)), maxSettings
	for _, entry := range list {
		text, err := json.Marshal(entry)
		if err == nil && len(text) <= min(left, maxSetting) {
			left -= len(text)
			kept = append(kept, entry)
		}
	}
	switch {
	case len(kept) == len(list):
		return list, unread
	case len(kept) == 0:
		kept = nil
	}
	return kept, errors.Join(unread, fmt.Errorf("%d of %d entries are left out: one may have %d bytes, and all of them %d", len(list)-len(kept), len(list), maxSetting, maxSettings))
}

// vendorProperty is the property with the manufacturer of the machine. A value that is set
// stays, because the manufacturer does not change.
const vendorProperty = "vendor"

// store writes a reading into the node.
func (r settingsReading) store(tx *store.Tx, n *node.Node) error {
	if r.bootMode != "" {
		n.BootMode = r.bootMode
	}
	if r.secureBoot != nil {
		n.SecureBoot = r.secureBoot
	}
	if r.vendor != "" && n.Properties.Text(vendorProperty) == "" {
		n.Properties = n.Properties.With(map[string]any{vendorProperty: r.vendor})
	}
	if r.health != nil {
		n.Health = *r.health
	}
	if r.raid != nil {
		n.RAIDConfig = *r.raid
	}
	if r.bios == nil && r.firmware == nil {
		return nil
	}
	hardware := node.Hardware{BIOS: r.bios, Firmware: r.firmware}
	if r.bios == nil || r.firmware == nil || r.unread {
		known, err := tx.Hardware(n.ID)
		if err != nil {
			return err
		}
		if r.bios == nil {
			hardware.BIOS = known.BIOS
		}
		if r.firmware == nil || r.unread {
			hardware.Firmware = joined(r.firmware, known.Firmware)
		}
	}
	return tx.SetHardware(n.ID, hardware)
}

// joined returns the firmware that was read, followed by what is known of other components, as
// far as bounded keeps it.
func joined(read, known []node.FirmwareComponent) []node.FirmwareComponent {
	shown := map[string]bool{}
	for _, one := range read {
		shown[one.Component] = true
	}
	others := slices.DeleteFunc(known, func(one node.FirmwareComponent) bool { return shown[one.Component] })
	kept, _ := bounded(slices.Concat(read, others), nil)
	return kept
}
