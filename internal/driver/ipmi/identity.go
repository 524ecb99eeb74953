package ipmi

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Identity reads the system's UUID (Get System GUID, section 22.14), whose bytes come in
// another order from one vendor to the next. A BMC without the command tells nothing.
func (d Driver) Identity(ctx context.Context, n *node.Node) (node.MachineIdentity, error) {
	var identity node.MachineIdentity
	err := d.with(ctx, n, "read the identity of the machine", driver.Turn{}, func(c *call) error {
		data, err := c.read(ctx, getSystemGUID)
		var refusal *completionError
		switch {
		case errors.As(err, &refusal) && !completions[refusal.code].passes:
			return nil
		case err != nil:
			return err
		}
		if id, err := uuid.FromBytes(data); err == nil {
			identity = node.NewMachineIdentity(id.String(), "")
		}
		return nil
	})
	return identity, err
}
