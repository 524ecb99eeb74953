// Package redfish drives machines through the Redfish service of their BMC, with the schemas and
// the HTTP API of the DMTF (DSP0266). It follows the links that a BMC gives and builds no paths.
// Differences of single vendors in requests, and most of their error messages, are in quirk.go.
// Properties that only they have are read where they are needed.
//
// A BMC grants few sessions, so nodes with the same address and credentials share one. The driver
// renews the session when the BMC ends it, and gives it back when no call has used it for a while.
// BMCs lock accounts, so the driver seldom sends credentials that a BMC has refused twice, unless
// the BMC may be starting.
//
// The driver reads the machine before and after every change. It does not request what the machine
// has already, and does not take a change for done before the machine shows it.
package redfish

import (
	"context"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Driver implements the interfaces named "redfish". It is safe for concurrent use. The
// zero value implements none.
type Driver struct{ pool *pool }

var (
	_ driver.Power          = Driver{}
	_ driver.Management     = Driver{}
	_ driver.Identifier     = Driver{}
	_ driver.MachineReader  = Driver{}
	_ driver.NetworkReader  = Driver{}
	_ driver.Interrupter    = Driver{}
	_ driver.BootModes      = Driver{}
	_ driver.SecureBoot     = Driver{}
	_ driver.VirtualMedia   = Driver{}
	_ driver.VendorDetector = Driver{}
	_ driver.HealthReader   = Driver{}
)

// New returns a driver without connections.
func New(o Options) Driver { return Driver{pool: newPool(o)} }

// Close ends all sessions on BMCs, or gives up when ctx ends. The driver must not be
// used afterwards.
func (d Driver) Close(ctx context.Context) error { return d.pool.close(ctx) }

// Interfaces returns the interfaces that the driver implements.
func (d Driver) Interfaces() map[node.InterfaceKind]driver.Implementation {
	if d.pool == nil {
		return nil
	}
	return map[node.InterfaceKind]driver.Implementation{
		node.BIOSInterface:       biosInterface{d},
		node.FirmwareInterface:   firmwareInterface{d},
		node.InspectInterface:    inspectInterface{d},
		node.ManagementInterface: d,
		node.PowerInterface:      d,
		node.RAIDInterface:       raidInterface{d},
		node.VendorInterface:     vendorInterface{d},
	}
}

// Validate checks the keys of driver_info that the driver reads.
func (Driver) Validate(n *node.Node) error {
	if _, err := accessOf(n); err != nil {
		return err
	}
	_, err := systemPathOf(n)
	return err
}
