package agentpower

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Inspector is in-band inspection: the machine's ramdisk posts the inventory.
type Inspector struct{}

var _ driver.InBand = Inspector{}

// Validate accepts every node.
func (Inspector) Validate(*node.Node) error { return nil }

// InBand says that the ramdisk has to be started first.
func (Inspector) InBand() {}

// Inspect waits for the post of the ramdisk.
func (Inspector) Inspect(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{Callback: true}, nil
}
