// Package ipmi drives machines through the IPMI service of their BMC: IPMI 2.0 over UDP with RMCP+
// sessions (Intelligent Platform Management Interface Specification, second generation, v2.0,
// revision 1.1). Section numbers in comments are those of this document.
//
// Each call opens a session of its own and closes it, because BMCs end sessions that are idle for a
// minute and grant few. The driver authenticates answers before it reads them. It resends a
// datagram that may be lost only where that changes nothing: a request that changes the machine is
// one datagram, and a lost answer makes its outcome unknown.
//
// The driver reads the machine before and after every change. It does not request what the machine
// has already, and does not take a change for done before the machine shows it.
package ipmi

import (
	"context"
	"net"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Options are the bounds of a driver's calls. The zero value means the defaults.
type Options struct {
	// RefusalPause is the time between the first two tries of credentials that a BMC
	// refuses, which some do while they restart; 0 means 30 seconds.
	RefusalPause time.Duration
	// Answer is how long an answer is waited for before a request that changes nothing
	// is sent again; 0 means 2 seconds.
	Answer time.Duration
	// Clock tells the time of refusals; nil means time.Now.
	Clock func() time.Time
	// Dial makes a connection to a BMC, on which each write and each read is a datagram; nil means
	// over UDP. The context is that of the call.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	defaultRefusalPause = 30 * time.Second
	defaultAnswer       = 2 * time.Second
)

// Driver implements the interfaces named "ipmitool". It is safe for concurrent use. The
// zero value implements none.
type Driver struct{ accounts *accounts }

var (
	_ driver.Power       = Driver{}
	_ driver.Management  = Driver{}
	_ driver.Identifier  = Driver{}
	_ driver.Interrupter = Driver{}
	_ driver.Describer   = Driver{}
)

// New returns a driver. It keeps no connections, so nobody has to close it.
func New(o Options) Driver {
	if o.RefusalPause == 0 {
		o.RefusalPause = defaultRefusalPause
	}
	if o.Answer == 0 {
		o.Answer = defaultAnswer
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Dial == nil {
		o.Dial = dialUDP
	}
	return Driver{accounts: &accounts{options: o, known: map[access]*account{}}}
}

// Interfaces returns the interfaces that the driver implements.
func (d Driver) Interfaces() map[node.InterfaceKind]driver.Implementation {
	if d.accounts == nil {
		return nil
	}
	return map[node.InterfaceKind]driver.Implementation{
		node.ManagementInterface: d,
		node.PowerInterface:      d,
		node.VendorInterface:     vendorInterface{d},
	}
}

// Validate checks the keys of driver_info that the driver reads.
func (Driver) Validate(n *node.Node) error {
	_, err := accessOf(n)
	return err
}

// Properties describes the keys of driver_info that only this driver reads.
func (Driver) Properties() map[string]string {
	return map[string]string{
		keepFlagsKey: "Whether the BMC keeps a boot device for longer than a minute until the machine is started: true or false. The default is true.",
	}
}
