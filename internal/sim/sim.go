// Package sim simulates machines.
//
// [Machines] are machines whose hardware is generated from a seed (package hardware). A machine
// that is powered on boots, as it is told to, from the network, from its disks or from a virtual
// medium (package firmware). Usually it boots a ramdisk with an agent (package agent). The agent
// talks to a Bare Metal API and listens on a loopback address of its own. Powering the machine off
// stops the ramdisk at once; powering it on again boots a new ramdisk that knows nothing of the one
// before. What the agent has written to the disks (package disk) stays.
//
// An operating system on a disk may do what its user data says (package instance): it becomes a
// Node of a Kubernetes cluster.
//
// A machine may have a BMC (packages bmc and redfish) on an address of its own. The BMC switches
// the power of the machine and decides what it boots. The effects and faults of all machines are in
// a Recorder of package effect.
//
// The package uses public protocols only and imports nothing of the engine, so that tests against
// it are valid for real machines, too.
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
	"os"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/firmware"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// Options describe the machines.
type Options struct {
	// BMC gives every machine a BMC; nil means that only the methods of [Machine] switch the
	// machines.
	BMC *BMCOptions
	// Engine is the root URL of the Bare Metal API, for example
	// http://127.0.0.1:6385.
	Engine string
	// BootURL is the URL of the iPXE script that a DHCP server would give to machines that boot
	// from the network. Empty means that the network offers a ramdisk whose agent reports to
	// Engine. A machine that has an operating system boots this ramdisk only if its BMC tells it to
	// boot from the network.
	BootURL string
	// Disks is an existing folder for what is written to the disks of the machines; empty means
	// that only the size, checksum and format of what is written are kept.
	Disks string
	// AgentFaults are those of agents whose machine has no faults of its own.
	AgentFaults effect.AgentFaults
	// Machines is the number of machines, 1 to [hardware.MaxMachines].
	Machines int
	// Seed decides the hardware of the machines and the jitter of their pauses.
	Seed uint64
	// Network holds the machines' own addresses: machine i listens on the
	// network's address plus i plus one. The zero value means
	// [hardware.DefaultNetwork]. Two simulations on one computer need two networks.
	Network netip.Prefix
	// Inventory is the network of the addresses that machines post for the interface that they
	// booted from, numbered in the same way; the zero value means Network. It is for engines that
	// ignore interfaces with loopback addresses: such engines still reach the agents under the
	// addresses in Network.
	Inventory netip.Prefix
	// PlainHTTP makes agents serve their commands without TLS.
	PlainHTTP bool
	// AgentVersion is the version of ironic-python-agent that the ramdisks run, one that
	// [agent.CheckVersion] accepts; empty means [agent.DefaultVersion].
	AgentVersion string
	// CoreOS gives the ramdisks a hardware manager that installs CoreOS, see [agent.Config].
	CoreOS bool
	// BootTime is the mean time from power on until the ramdisk is up.
	BootTime time.Duration
	// HeartbeatTimeout replaces the engine's heartbeat timeout; zero keeps it.
	HeartbeatTimeout time.Duration
	// Instance does what an operating system on the disk of a machine does. It returns when ctx
	// ends, with the power of the machine, or when there is nothing more to do. Nil means that
	// operating systems do nothing.
	Instance func(ctx context.Context, i Instance)
	// Hardware limits which hardware is generated; its Address is ignored.
	Hardware hardware.Options
	// EngineTLS is the TLS configuration for an https engine, and for servers of boot
	// files and images; nil means the default.
	EngineTLS *tls.Config
	// Client makes the agents' requests; nil means a client of the simulation, with a bounded
	// number of connections and the TLS configuration EngineTLS.
	Client *http.Client
	// Clock is the machines' time; nil means [agent.RealClock].
	Clock agent.Clock
	// Log gets the log of the ramdisks; nil discards it.
	Log *slog.Logger
}

// Validate returns an error for options that cannot work.
func (o Options) Validate() error {
	engine, err := url.Parse(o.Engine)
	if err != nil || engine.Host == "" || (engine.Scheme != "http" && engine.Scheme != "https") {
		return fmt.Errorf("engine %q is no http or https URL; give the root of the Bare Metal API, for example http://127.0.0.1:6385", o.Engine)
	}
	if boot, err := url.Parse(o.BootURL); o.BootURL != "" && (err != nil || boot.Host == "" || (boot.Scheme != "http" && boot.Scheme != "https")) {
		return fmt.Errorf("the boot script %q is no http or https URL", o.BootURL)
	}
	if o.Disks != "" {
		if folder, err := os.Stat(o.Disks); err != nil || !folder.IsDir() {
			return fmt.Errorf("there is no folder %q for the disks of the machines", o.Disks)
		}
	}
	if o.Machines < 1 || o.Machines > hardware.MaxMachines {
		return fmt.Errorf("want 1 to %d machines, got %d", hardware.MaxMachines, o.Machines)
	}
	for _, network := range []netip.Prefix{o.network(), o.inventory()} {
		if !network.Addr().Is4() {
			return fmt.Errorf("network %s is not IPv4", network)
		}
		if room := 1<<(32-network.Bits()) - 1; o.Machines > room {
			return fmt.Errorf("network %s has room for %d machines, not %d", network, room, o.Machines)
		}
	}
	if err := errors.Join(agent.CheckVersion(o.AgentVersion), o.Hardware.Validate(), o.AgentFaults.Validate()); err != nil || o.BMC == nil {
		return err
	}
	return o.BMC.validate(o)
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

// Machines are simulated machines. They are safe for concurrent use.
type Machines struct {
	options  Options
	clients  clients
	loader   *firmware.Loader
	recorder *effect.Recorder
	machines []*Machine
	bmcs     *bmcs // nil without BMCs

	mu      sync.Mutex
	stopped bool
	states  map[State]int
	answers map[Answer]int
	trouble map[agent.Call]string
	runs    []Run
	changed chan struct{} // closed and replaced at every change
}

// New returns machines that are all powered off.
func New(options Options) (*Machines, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	ms := &Machines{
		options: options,
		states:  map[State]int{Off: options.Machines},
		answers: map[Answer]int{},
		trouble: map[agent.Call]string{},
		changed: make(chan struct{}),
	}
	if ms.options.Clock == nil {
		ms.options.Clock = agent.RealClock
	}
	ms.clients = newClients(options)
	ms.loader = firmware.NewLoader(ms.clients.downloads, func(ctx context.Context, d time.Duration) error {
		return agent.Sleep(ctx, ms.options.Clock, d)
	})
	ms.recorder = newRecorder(options)
	if ms.options.Log == nil {
		ms.options.Log = slog.New(slog.DiscardHandler)
	}
	ms.machines = make([]*Machine, options.Machines)
	for i := range ms.machines {
		ms.machines[i] = newMachine(ms, i)
		ms.recorder.Register(ms.machines[i].name())
	}
	if options.BMC != nil {
		if err := ms.addBMCs(); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

// Len returns the number of machines.
func (ms *Machines) Len() int { return len(ms.machines) }

// Machine returns machine i, counted from zero. It panics when there is none.
func (ms *Machines) Machine(i int) *Machine { return ms.machines[i] }

// PowerOn powers all machines on in their order, at most perSecond of them per second; zero means
// all at once. It returns when the last machine has power, before that machine runs, or when ctx
// ends.
func (ms *Machines) PowerOn(ctx context.Context, perSecond float64) error {
	start := ms.options.Clock.Now()
	for i, m := range ms.machines {
		if perSecond > 0 {
			due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
			if err := agent.Sleep(ctx, ms.options.Clock, due.Sub(ms.options.Clock.Now())); err != nil {
				return fmt.Errorf("power on machine %d of %d: %w", i, len(ms.machines), err)
			}
		}
		if err := m.PowerOn(); err != nil {
			return fmt.Errorf("power on machine %d: %w", i, err)
		}
	}
	return nil
}

func (ms *Machines) hasStopped() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.stopped
}

// ErrStopped is returned when machines are powered on after Stop.
var ErrStopped = errors.New("the simulation was stopped")

// Stop powers all machines off and returns when all their goroutines have ended.
// The machines cannot be powered on afterwards.
func (ms *Machines) Stop() {
	ms.mu.Lock()
	ms.stopped = true
	ms.mu.Unlock()
	var wg sync.WaitGroup
	if ms.bmcs != nil {
		ms.bmcs.stop()
	}
	for _, m := range ms.machines {
		wg.Go(m.PowerOff)
	}
	wg.Wait()
	ms.clients.close()
}
