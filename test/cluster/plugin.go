package cluster

import (
	"net/netip"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/instance"
	"github.com/ingot-metal/ingot/internal/sim/invariant"
)

const (
	// pluggedBits is the size of the network that a machine gets which is plugged in.
	pluggedBits = 24
	// pluggedSeed is the seed of the first such machine; seeds decide addresses.
	pluggedSeed = 1000
)

// PlugIn powers on a machine that nobody knows and that has no BMC. It boots the ramdisk, and runs until the world stops.
func (w *World) PlugIn(tb testing.TB) *sim.Machine {
	tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	number := len(w.plugged)
	instances := instance.New(instance.Options{Heartbeat: heartbeat}) // of its own: runs are numbered in each simulation
	// Each is another machine of its simulation: the number of a machine decides the address of the BMC that its hardware tells of, and
	// an engine takes two with one address for the same machine.
	machines, err := sim.New(sim.Options{
		Engine: w.EngineURL(), Machines: number + 1, Seed: pluggedSeed + uint64(number), Network: w.pluggedNetwork(number), Instance: instances.Run,
	})
	if err != nil {
		tb.Fatalf("make a machine: %v", err)
	}
	w.plugged = append(w.plugged, invariant.Checker{Machines: machines, Instances: instances})
	machine := machines.Machine(number)
	if err := machine.PowerOn(); err != nil {
		tb.Fatalf("power a machine on: %v", err)
	}
	return machine
}

// pluggedNetwork is the network of a machine that is plugged in, in the part of the world's network in which no other machines are.
func (w *World) pluggedNetwork(number int) netip.Prefix {
	bytes := w.network.Masked().Addr().As4()
	bytes[2] += byte(number)
	return netip.PrefixFrom(netip.AddrFrom4(bytes), pluggedBits)
}
