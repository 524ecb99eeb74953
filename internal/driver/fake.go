package driver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// allTargets is every power target that the API knows.
var allTargets = []node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}

// Fake is every interface of machines that are not there. It has no hardware:
// the state of the machine is what the caller stored in the node last.
type Fake struct{}

var (
	_ Power        = Fake{}
	_ Verifier     = Fake{}
	_ Management   = Fake{}
	_ Interrupter  = Fake{}
	_ BootModes    = Fake{}
	_ SecureBoot   = Fake{}
	_ VirtualMedia = Fake{}
	_ Inspector    = Fake{}
	_ Deploy       = Fake{}
	_ Rescue       = Fake{}
)

// Validate checks the keys of driver_info that make a fake slow or faulty.
func (Fake) Validate(n *node.Node) error { return validateFake(n) }

// fakeReading is the operation of reading the power state.
const fakeReading = "power_reading"

// PowerState returns the stored state, unless driver_info says what the machine
// shows; a node that has none yet is off.
func (Fake) PowerState(_ context.Context, n *node.Node) (node.PowerState, error) {
	if err := fakeFailure(n, fakeReading); err != nil {
		return "", err
	}
	if shown := node.PowerState(n.DriverInfo.Text(fakeKey("power_state"))); shown == node.PowerOn || shown == node.PowerOff {
		return shown, nil
	}
	if n.PowerState == "" || n.PowerState == node.PowerError {
		return node.PowerOff, nil
	}
	return n.PowerState, nil
}

// Verify takes as long, and fails, as the node's driver_info says.
func (Fake) Verify(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	if err := validateFake(n); err != nil {
		return Outcome{}, err
	}
	return fakeWork(n, "verify", turn)
}

// SetPower accepts every target.
func (Fake) SetPower(ctx context.Context, n *node.Node, target node.PowerState, turn Turn) (Outcome, error) {
	if !slices.Contains(allTargets, target) {
		return Outcome{}, unsupported("fake", target, allTargets)
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	out, err := fakeTurn(n, "power", turn)
	if out.Park > 0 { // a power change has no waiting state
		out.Again, out.Park = out.Park, 0
	}
	return out, err
}

// Supported lists every target there is.
func (Fake) Supported() []node.PowerState { return slices.Clone(allTargets) }

// Inspect finds nothing: there is no machine to look at.
func (Fake) Inspect(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	return fakeTurn(n, "inspect", turn)
}

// TearDown forgets the instance.
func (Fake) TearDown(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	return fakeWork(n, "undeploy", turn)
}

// Adopt believes that the instance is there.
func (Fake) Adopt(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	return fakeWork(n, "adopt", turn)
}

// Rescue pretends to start a rescue system.
func (Fake) Rescue(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	return fakeTurn(n, "rescue", turn)
}

// Unrescue pretends to start the instance.
func (Fake) Unrescue(_ context.Context, n *node.Node, turn Turn) (Outcome, error) {
	return fakeWork(n, "unrescue", turn)
}

// fakeWork is a turn of an operation whose state has no waiting state beside it.
func fakeWork(n *node.Node, operation string, turn Turn) (Outcome, error) {
	out, err := fakeTurn(n, operation, turn)
	if out.Park > 0 {
		out.Again, out.Park = out.Park, 0
	}
	return out, err
}

// fakeMemory is where a fake machine's state is kept that has no field of its
// own, in driver_internal_info.
const fakeMemory = "fake_hardware"

func fakeRecall(n *node.Node, key string, target any) bool {
	var memory node.Object
	return n.DriverInternalInfo.Get(fakeMemory, &memory) && memory.Get(key, target)
}

// fakeRemember returns the outcome that stores a part of the machine's state.
func fakeRemember(key string, value any) Outcome {
	return Outcome{Apply: func(n *node.Node) {
		var memory node.Object
		n.DriverInternalInfo.Get(fakeMemory, &memory)
		n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{
			fakeMemory: json.RawMessage(memory.With(map[string]any{key: value}).String()),
		})
	}}
}

func unsupported(name string, target node.PowerState, supported []node.PowerState) error {
	if len(supported) == 0 {
		return node.Invalid("The power interface %s cannot change the power of a machine, so %q is not supported.", name, target)
	}
	return node.Invalid("The power interface %s does not support %q; it supports %s.", name, target, node.Choices(supported))
}
