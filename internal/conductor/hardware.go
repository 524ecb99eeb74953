package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Hardware returns what was last read of the machine's own settings.
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

// reading is what a look at a machine brought.
type reading struct {
	hardware   node.Hardware
	bootMode   string // empty when it cannot be read
	secureBoot *bool
}

// read looks at the machine's settings. An ability that the node lacks leaves its
// part empty.
func (c *Conductor) readHardware(ctx context.Context, n *node.Node) (reading, error) {
	var r reading
	var err error
	if bios, unable := driver.Ability[driver.BIOS](c.drivers, n, node.BIOSInterface, "reading BIOS settings"); unable == nil {
		if r.hardware.BIOS, err = bios.BIOSSettings(ctx, n); err != nil {
			return r, fmt.Errorf("read BIOS settings: %w", err)
		}
	}
	if firmware, unable := driver.Ability[driver.Firmware](c.drivers, n, node.FirmwareInterface, "reading firmware"); unable == nil {
		if r.hardware.Firmware, err = firmware.FirmwareComponents(ctx, n); err != nil {
			return r, fmt.Errorf("read firmware: %w", err)
		}
	}
	if modes, unable := driver.Ability[driver.BootModes](c.drivers, n, node.ManagementInterface, "boot modes"); unable == nil {
		if r.bootMode, err = modes.BootMode(ctx, n); err != nil {
			return r, fmt.Errorf("read boot mode: %w", err)
		}
	}
	if secure, unable := driver.Ability[driver.SecureBoot](c.drivers, n, node.ManagementInterface, "secure boot"); unable == nil {
		on, err := secure.SecureBoot(ctx, n)
		if err != nil {
			return r, fmt.Errorf("read secure boot: %w", err)
		}
		r.secureBoot = &on
	}
	return r, nil
}

// store writes a reading into the node.
func (r reading) store(tx *store.Tx, n *node.Node) error {
	if r.bootMode != "" {
		n.BootMode = r.bootMode
	}
	if r.secureBoot != nil {
		n.SecureBoot = r.secureBoot
	}
	return tx.SetHardware(n.ID, r.hardware)
}

// lookAgain reads the settings of a machine behind the steps that may have
// changed them. What cannot be read now is left as it was.
func (s *session) lookAgain(ctx context.Context) (reading, error) {
	now := *s.n
	s.apply(&now)
	r, err := s.readHardware(ctx, &now)
	if err == nil || ctx.Err() != nil || errors.Is(err, node.ErrLeaseLost) {
		return r, err
	}
	s.log.Warn("Settings of a machine could not be read", "node", s.n.UUID, "err", err)
	err = s.store.Read(ctx, func(tx *store.Tx) (err error) {
		r = reading{}
		r.hardware, err = tx.Hardware(s.n.ID)
		return err
	})
	return r, err
}
