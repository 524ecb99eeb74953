// Package fake implements fake hardware: nodes that support every verb without a
// machine. The node's driver_info says how slow it is and which operations fail; what
// a machine would remember is stored in the node.
//
// A node may have a simulated machine outside the engine instead, a Machine that keeps
// a log of everything that was done to it. Power, BIOS settings, firmware, effects,
// delays and failures are then those of the machine; boot device and media are still
// those that are stored in the node.
package fake

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// allTargets is every power target that the API knows.
var allTargets = []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}

// Hardware has all abilities of fake hardware except those with steps. The zero value
// has no machines.
type Hardware struct{ machines Machines }

// New returns fake hardware whose nodes have the machines that machines returns; nil
// means that there are none.
func New(machines Machines) Hardware { return Hardware{machines: machines} }

var (
	_ driver.Power        = Hardware{}
	_ driver.Verifier     = Hardware{}
	_ driver.Describer    = Hardware{}
	_ driver.Management   = Hardware{}
	_ driver.Interrupter  = Hardware{}
	_ driver.BootModes    = Hardware{}
	_ driver.SecureBoot   = Hardware{}
	_ driver.VirtualMedia = Hardware{}
	_ driver.Inspector    = Hardware{}
	_ driver.RamdiskBoot  = Hardware{}
	_ driver.Deploy       = Hardware{}
	_ driver.Rescue       = Hardware{}
)

// Interfaces returns the interfaces of fake hardware, all of which have the name
// "fake".
func (h Hardware) Interfaces() map[node.InterfaceKind]driver.Implementation {
	return map[node.InterfaceKind]driver.Implementation{
		node.BIOSInterface:       biosInterface{stepper{h, biosSteps}},
		node.BootInterface:       h,
		node.DeployInterface:     stepper{h, deploySteps},
		node.FirmwareInterface:   firmwareInterface{stepper{h, firmwareSteps}},
		node.InspectInterface:    h,
		node.ManagementInterface: stepper{h, managementSteps},
		node.PowerInterface:      h,
		node.RAIDInterface:       stepper{h, raidSteps},
		node.RescueInterface:     h,
		node.VendorInterface:     vendorInterface{h},
	}
}

// machine returns the machine of a node, if it has one.
func (h Hardware) machine(n *node.Node) (Machine, bool) {
	if h.machines == nil {
		return nil, false
	}
	return h.machines(n)
}

// turn makes a turn of an operation that has a waiting state. The machine carries out the order.
// Without a machine, driver_info says how long the operation takes and whether it fails.
func (h Hardware) turn(ctx context.Context, n *node.Node, operation string, o order, turn driver.Turn) (driver.Outcome, error) {
	if machine, ok := h.machine(n); ok {
		out, err := carryOut(ctx, machine, o, turn)
		out.Again, out.Park = 0, out.Again
		return out, err
	}
	return play(n, operation, turn)
}

// underWork turns a wait in a waiting state into a wait under the lease. It is for operations
// without a waiting state.
func underWork(out driver.Outcome, err error) (driver.Outcome, error) {
	if out.Park > 0 {
		out.Again, out.Park = out.Park, 0
	}
	return out, err
}

// Validate checks the keys of driver_info that fake hardware reads.
func (Hardware) Validate(n *node.Node) error { return validate(n) }

// reading is the operation of reading the power state.
const reading = "power_reading"

// PowerState reads the machine. Without a machine it returns the state that driver_info
// gives, or else the stored one; an unknown state counts as off.
func (h Hardware) PowerState(ctx context.Context, n *node.Node) (node.PowerState, error) {
	if machine, ok := h.machine(n); ok {
		return machine.PowerState(ctx)
	}
	if err := failure(n, reading); err != nil {
		return "", err
	}
	if shown := node.PowerState(n.DriverInfo.Text(key("power_state"))); shown == node.PowerOn || shown == node.PowerOff {
		return shown, nil
	}
	if n.PowerState == "" || n.PowerState == node.PowerError {
		return node.PowerOff, nil
	}
	return n.PowerState, nil
}

// Verify takes time and fails as the node's driver_info says, unless the machine is a
// driver.Verifier itself.
func (h Hardware) Verify(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	if err := validate(n); err != nil {
		return driver.Outcome{}, err
	}
	if machine, ok := h.machine(n); ok {
		if verifier, ok := machine.(driver.Verifier); ok {
			return verifier.Verify(ctx, n, turn)
		}
	}
	return underWork(play(n, "verify", turn))
}

// SetPower supports every target. A machine is read until it has the state.
func (h Hardware) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn driver.Turn) (driver.Outcome, error) {
	if !slices.Contains(allTargets, target) {
		return driver.Outcome{}, driver.UnsupportedPower("fake", target, allTargets)
	}
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	if machine, ok := h.machine(n); ok {
		return changePower(ctx, machine, target, turn)
	}
	return underWork(play(n, "power", turn))
}

// Supported lists every target there is.
func (Hardware) Supported() []node.PowerState { return slices.Clone(allTargets) }

// Inspect changes nothing: there is no hardware to inspect.
func (Hardware) Inspect(_ context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return play(n, "inspect", turn)
}

// BootRamdisk tells the machine to boot the ramdisk. Without a machine it does nothing:
// a test posts the inventory itself.
func (h Hardware) BootRamdisk(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	if machine, ok := h.machine(n); ok {
		return carryOut(ctx, machine, order{kind: BootRamdisk}, turn)
	}
	return driver.Outcome{}, nil
}

// LeaveRamdisk does nothing: nothing is served for a boot of fake hardware.
func (Hardware) LeaveRamdisk(context.Context, *node.Node, driver.Turn) (driver.Outcome, error) {
	return driver.Outcome{}, nil
}

// TearDown pretends to remove the instance.
func (h Hardware) TearDown(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return underWork(h.turn(ctx, n, "undeploy", order{kind: TearDown}, turn))
}

// Adopt does not check the instance.
func (Hardware) Adopt(_ context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return underWork(play(n, "adopt", turn))
}

// Rescue pretends to start a rescue system.
func (h Hardware) Rescue(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return h.turn(ctx, n, "rescue", order{kind: Rescue}, turn)
}

// Unrescue pretends to start the instance.
func (h Hardware) Unrescue(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return underWork(h.turn(ctx, n, "unrescue", order{kind: Unrescue}, turn))
}

// memory is the key of driver_internal_info for those parts of the state of a node without a
// machine that have no field in the node.
const memory = "fake_hardware"

// recall reads a part of that state into target, which stays unchanged without one.
func recall(n *node.Node, key string, target any) {
	var all node.Object
	if n.DriverInternalInfo.Get(memory, &all) {
		all.Get(key, target)
	}
}

// remember returns the function that stores a part of that state.
func remember(key string, value any) func(*node.Node) {
	return func(n *node.Node) {
		var all node.Object
		n.DriverInternalInfo.Get(memory, &all)
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{
			memory: json.RawMessage(all.With(map[string]any{key: value}).String()),
		})
	}
}

// applied adds a change of the node to the outcome of an operation that is done.
func applied(out driver.Outcome, err error, change func(*node.Node)) (driver.Outcome, error) {
	if err == nil && out.Done() {
		out.Apply = change
	}
	return out, err
}
