// Package sim runs fleets of machines that do not exist.
//
// A [Fleet] holds machines whose hardware comes from a seed (package hardware).
// A machine that is powered on boots a ramdisk (package agent), which talks to
// a Bare Metal API and listens on its own loopback address. Cutting the power
// stops the ramdisk at once; switching it on again boots a new one that knows
// nothing of the one before.
//
// The package knows public protocols only and imports nothing of the engine,
// so what works against it works against machines, too.
package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// Options describe a fleet.
type Options struct {
	// Engine is the root URL of the Bare Metal API, for example
	// http://127.0.0.1:6385.
	Engine string
	// Machines is the size of the fleet, 1 to [hardware.MaxMachines].
	Machines int
	// Seed decides what the machines look like and how their pauses jitter.
	Seed uint64
	// Network holds the machines' own addresses: machine i listens on the
	// network's address plus i plus one. The zero value means
	// [hardware.DefaultNetwork]. Two fleets on one computer need two networks.
	Network netip.Prefix
	// Inventory holds the addresses that the machines post as those of the
	// interface that booted, counted in the same way; the zero value means
	// Network. It is for engines that take no interface with a loopback address
	// for a real one: they still call the agents under the address in Network.
	Inventory netip.Prefix
	// PlainHTTP makes agents serve their commands without TLS.
	PlainHTTP bool
	// BootTime is the mean time from power on until the ramdisk is up.
	BootTime time.Duration
	// HeartbeatTimeout replaces the engine's heartbeat timeout; zero keeps it.
	HeartbeatTimeout time.Duration
	// Hardware narrows what the machines look like; its Address is ignored.
	Hardware hardware.Options
	// EngineTLS is how agents check an https engine; nil means the roots of
	// this computer.
	EngineTLS *tls.Config
	// Client makes the agents' requests; nil means a client of the fleet's own
	// with a bounded number of connections, which EngineTLS applies to.
	Client *http.Client
	// Clock is the machines' time; nil means [agent.RealClock].
	Clock agent.Clock
	// Log gets what the ramdisks have to say; nil discards it.
	Log *slog.Logger
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	engine, err := url.Parse(o.Engine)
	if err != nil || engine.Host == "" || (engine.Scheme != "http" && engine.Scheme != "https") {
		return fmt.Errorf("engine %q is no http or https URL; give the root of the Bare Metal API, for example http://127.0.0.1:6385", o.Engine)
	}
	if o.Machines < 1 || o.Machines > hardware.MaxMachines {
		return fmt.Errorf("a fleet has 1 to %d machines, not %d", hardware.MaxMachines, o.Machines)
	}
	for _, network := range []netip.Prefix{o.network(), o.inventory()} {
		if !network.Addr().Is4() {
			return fmt.Errorf("network %s is not IPv4", network)
		}
		if room := 1<<(32-network.Bits()) - 1; o.Machines > room {
			return fmt.Errorf("network %s has room for %d machines, not %d", network, room, o.Machines)
		}
	}
	return o.Hardware.Validate()
}

func (o Options) network() netip.Prefix {
	if o.Network.IsValid() {
		return o.Network
	}
	return hardware.DefaultNetwork
}

func (o Options) inventory() netip.Prefix {
	if o.Inventory.IsValid() {
		return o.Inventory
	}
	return o.network()
}

// Connections that all agents of a fleet share.
const (
	maxConnections = 256
	idleConnection = 90 * time.Second
)

// newClient returns the client of a fleet. Agents of a large fleet wait for
// one another instead of opening a connection each.
func newClient(engine *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxConnsPerHost:     maxConnections,
		MaxIdleConnsPerHost: maxConnections,
		IdleConnTimeout:     idleConnection,
		DisableCompression:  true,
		TLSClientConfig:     engine,
	}}
}

// Fleet is a number of machines. It is safe for concurrent use.
type Fleet struct {
	options   Options
	ownClient bool
	machines  []*Machine

	mu      sync.Mutex
	stopped bool
	states  map[State]int
	answers map[Answer]int
	trouble map[agent.Call]string
	changed chan struct{} // closed and replaced at every change
}

// New returns a fleet whose machines are all powered off.
func New(options Options) (*Fleet, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	f := &Fleet{
		options: options,
		states:  map[State]int{Off: options.Machines},
		answers: map[Answer]int{},
		trouble: map[agent.Call]string{},
		changed: make(chan struct{}),
	}
	if f.options.Client == nil {
		f.options.Client, f.ownClient = newClient(options.EngineTLS), true
	}
	if f.options.Clock == nil {
		f.options.Clock = agent.RealClock
	}
	if f.options.Log == nil {
		f.options.Log = slog.New(slog.DiscardHandler)
	}
	f.machines = make([]*Machine, options.Machines)
	for i := range f.machines {
		f.machines[i] = newMachine(f, i)
	}
	return f, nil
}

// Len is the number of machines.
func (f *Fleet) Len() int { return len(f.machines) }

// Machine returns machine i, counted from zero. It panics when there is none.
func (f *Fleet) Machine(i int) *Machine { return f.machines[i] }

// PowerOn switches all machines on in their order, at most perSecond of them
// in a second, zero meaning all at once. It returns when the last one has
// power, which is before it runs, or when ctx ends.
func (f *Fleet) PowerOn(ctx context.Context, perSecond float64) error {
	start := f.options.Clock.Now()
	for i, m := range f.machines {
		if perSecond > 0 {
			due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
			if err := agent.Sleep(ctx, f.options.Clock, due.Sub(f.options.Clock.Now())); err != nil {
				return fmt.Errorf("power on machine %d of %d: %w", i, len(f.machines), err)
			}
		}
		if err := m.PowerOn(); err != nil {
			return fmt.Errorf("power on machine %d: %w", i, err)
		}
	}
	return nil
}

// ErrStopped is returned by requests to a fleet that was stopped.
var ErrStopped = errors.New("the fleet was stopped")

// Stop cuts the power of all machines and returns when nothing of them is
// left. The fleet cannot be used afterwards.
func (f *Fleet) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	var wg sync.WaitGroup
	for _, m := range f.machines {
		wg.Go(m.PowerOff)
	}
	wg.Wait()
	if f.ownClient {
		f.options.Client.CloseIdleConnections()
	}
}
