package demo

import (
	"context"
	"fmt"
	"path"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// Identify returns the machine whose host name is the end of the path in the BMC's address; see
// [provisioner.Identifier]. BMCs with IPMI cannot tell.
func (e *Engine) Identify(_ context.Context, access bmc.Access, credentials bmc.Credentials) (node.MachineFacts, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.failing != nil:
		return node.MachineFacts{}, e.failing
	case access.Driver == "ipmi":
		return node.MachineFacts{}, fmt.Errorf("%w: demo: IPMI does not tell", provisioner.ErrUnsupported)
	case credentials.Password == WrongPassword:
		return node.MachineFacts{}, fmt.Errorf("%w: demo: the BMC refuses the credentials", provisioner.ErrInvalid)
	}
	inv := SampleInventory(path.Base(access.Endpoint.System))
	return node.MachineFacts{
		MachineIdentity: node.NewMachineIdentity(inv.Hardware.SystemVendor.UUID, inv.Hardware.SystemVendor.SerialNumber),
		MACAddresses:    inv.Hardware.MACs(),
	}, nil
}
