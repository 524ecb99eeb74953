package ipmi

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Facts are what the driver finds at a BMC.
type Facts struct {
	// Suite is the cipher suite of the session.
	Suite int
	// Manufacturer is the vendor's number at the IANA, and Firmware the version of the BMC's
	// firmware; 0 and empty when the BMC does not tell.
	Manufacturer int
	Firmware     string
}

// Facts opens a session and reads which device the BMC is (Get Device ID, section 20.1).
func (d Driver) Facts(ctx context.Context, n *node.Node) (Facts, error) {
	var facts Facts
	err := d.with(ctx, n, "open a session", driver.Turn{}, func(c *call) error {
		facts.Suite = c.suite.id
		data, err := c.read(ctx, getDeviceID)
		if isRefusal(err) {
			return nil // all that a session needs is there
		}
		if err == nil {
			facts.Firmware, facts.Manufacturer = decodeDeviceID(data)
		}
		return err
	})
	return facts, err
}

// decodeDeviceID reads the version of the firmware and the number of the manufacturer. A
// short answer has none.
func decodeDeviceID(data []byte) (firmware string, manufacturer int) {
	const major, minor, vendor = 2, 3, 6
	if len(data) < vendor+3 {
		return "", 0
	}
	firmware = fmt.Sprintf("%d.%02x", data[major]&0x7F, data[minor]) // the minor one is in BCD
	return firmware, int(data[vendor]) | int(data[vendor+1])<<8 | int(data[vendor+2])&0x0F<<16
}
