package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

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
// not be read is nil.
type settingsReading struct {
	bios       []node.BIOSSetting
	firmware   []node.FirmwareComponent
	bootMode   string
	secureBoot *bool
}

// readSettings returns the operation that reads the settings of a machine. They only
// inform: what cannot be read stays as it was stored, and the work goes on, even when
// a driver panics.
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

// readHardware reads all settings that the node's interfaces support. The error says
// which ones could not be read.
func (c *Conductor) readHardware(ctx context.Context, n *node.Node) (r settingsReading, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("internal error in the driver: %v\n%s", panicked, debug.Stack())
		}
	}()
	var errs []error
	if bios, unable := driver.Ability[driver.BIOS](c.drivers, n, node.BIOSInterface, "reading BIOS settings"); unable == nil {
		var err error
		if r.bios, err = bios.BIOSSettings(ctx, n); err == nil {
			err = checkSize(r.bios)
		}
		if err != nil {
			r.bios, errs = nil, append(errs, fmt.Errorf("read BIOS settings: %w", err))
		}
	}
	if firmware, unable := driver.Ability[driver.Firmware](c.drivers, n, node.FirmwareInterface, "reading firmware"); unable == nil {
		var err error
		if r.firmware, err = firmware.FirmwareComponents(ctx, n); err == nil {
			err = checkSize(r.firmware)
		}
		if err != nil {
			r.firmware, errs = nil, append(errs, fmt.Errorf("read firmware: %w", err))
		}
	}
	if modes, unable := driver.Ability[driver.BootModes](c.drivers, n, node.ManagementInterface, "boot modes"); unable == nil {
		mode, err := modes.BootMode(ctx, n)
		if r.bootMode = node.CutText(mode); err != nil {
			errs = append(errs, fmt.Errorf("read boot mode: %w", err))
		}
	}
	if secure, unable := driver.Ability[driver.SecureBoot](c.drivers, n, node.ManagementInterface, "secure boot"); unable == nil {
		on, err := secure.SecureBoot(ctx, n)
		if err == nil {
			r.secureBoot = &on
		} else {
			errs = append(errs, fmt.Errorf("read secure boot: %w", err))
		}
	}
	return r, errors.Join(errs...)
}

// maxSettings bounds what is kept of one list of a machine's settings, in bytes.
const maxSettings = 1 << 20

// checkSize refuses a list that no machine has.
func checkSize[T any](list []T) error {
	text, err := json.Marshal(list)
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("%d entries of %d bytes are more than the %d that are kept", len(list), len(text), maxSettings)
	}
	return err
}

// store writes a reading into the node.
func (r settingsReading) store(tx *store.Tx, n *node.Node) error {
	if r.bootMode != "" {
		n.BootMode = r.bootMode
	}
	if r.secureBoot != nil {
		n.SecureBoot = r.secureBoot
	}
	if r.bios == nil && r.firmware == nil {
		return nil
	}
	hardware := node.Hardware{BIOS: r.bios, Firmware: r.firmware}
	if r.bios == nil || r.firmware == nil {
		known, err := tx.Hardware(n.ID)
		if err != nil {
			return err
		}
		if r.bios == nil {
			hardware.BIOS = known.BIOS
		}
		if r.firmware == nil {
			hardware.Firmware = known.Firmware
		}
	}
	return tx.SetHardware(n.ID, hardware)
}
