package ironic

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// identifyMethod is a vendor method that the drivers of Ingot's engine have and those of upstream
// Ironic do not have.
const identifyMethod = "identify"

// Identify asks the driver; see [provisioner.Identifier]. It looks for the method in the engine's
// list of methods, because engines word the refusal of an unknown method differently.
func (e *Engine) Identify(ctx context.Context, access bmc.Access, credentials bmc.Credentials) (node.MachineFacts, error) {
	r, _, err := e.prepare(ctx, provisioner.Registration{Access: &access, Credentials: credentials})
	if err != nil {
		return node.MachineFacts{}, err
	}
	methods, err := e.client.DriverMethods(ctx, r.Access.Driver)
	if err != nil && !errors.Is(err, ironic.ErrNotFound) && !errors.Is(err, ironic.ErrRejected) {
		return node.MachineFacts{}, translate(err)
	}
	if !methods[identifyMethod] {
		return node.MachineFacts{}, fmt.Errorf("%w: its driver %s has no method %s", provisioner.ErrUnsupported, r.Access.Driver, identifyMethod)
	}
	info := maps.Clone(r.Access.Settings)
	maps.Copy(info, credentialInfo(r))
	var facts node.MachineFacts
	err = e.client.CallDriver(ctx, r.Access.Driver, identifyMethod, map[string]any{"driver_info": info}, &facts)
	if errors.Is(err, ironic.ErrRejected) {
		return node.MachineFacts{}, &kindError{kind: provisioner.ErrInvalid, err: err}
	}
	if err != nil {
		return node.MachineFacts{}, translate(err)
	}
	facts.MachineIdentity = node.NewMachineIdentity(facts.UUID, facts.SerialNumber)
	return facts, nil
}
