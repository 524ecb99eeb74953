package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

// Wait is the value of --wait, with or without a time.
type Wait struct {
	// Asked reports whether to wait at all.
	Asked bool
	// Timeout limits the wait for all nodes together; 0 means no limit.
	Timeout time.Duration
}

// WaitForever is the value of --wait without a time.
const WaitForever = "forever"

// Set accepts a number of seconds, a duration such as 5m, or [WaitForever].
func (w *Wait) Set(text string) error {
	w.Asked, w.Timeout = true, 0
	if text == WaitForever {
		return nil
	}
	timeout, err := time.ParseDuration(text)
	if seconds, notSeconds := strconv.ParseUint(text, 10, 32); notSeconds == nil {
		timeout, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || timeout <= 0 {
		return errors.New("it must be a number of seconds or a time such as 5m")
	}
	w.Timeout = timeout
	return nil
}

// String returns the value as help texts show it.
func (w *Wait) String() string {
	switch {
	case !w.Asked:
		return ""
	case w.Timeout == 0:
		return WaitForever
	default:
		return w.Timeout.String()
	}
}

// Type names the kind of value in help texts.
func (w *Wait) Type() string { return "seconds" }

// waitFields are the fields that a wait for a provision state reads.
var waitFields = []string{"uuid", "name", "provision_state", "target_provision_state", "last_error", "reservation", "retired"}

// stateWatch waits until judge accepts a node's provision state and the node is no longer reserved.
// Some work keeps the reservation for a moment after it has reached its state, and until then the
// engine refuses the next verb.
func stateWatch(engine *ironic.Client, ident string, interval time.Duration, judge func(ironic.Node) (bool, error)) watch {
	return watch{kind: "node", label: ident, interval: interval, poll: func(ctx context.Context) (observation, error) {
		n, err := engine.Node(ctx, ident, waitFields...)
		if err != nil {
			return observation{}, err
		}
		now := observation{state: n.ProvisionState}
		if n.Reservation == "" || node.State(n.ProvisionState).Class() == node.Working {
			now.done, now.err = judge(n)
		}
		return now, nil
	}}
}

// arrived reports whether the verb's work on the node has succeeded. An error means that the work
// has failed.
func (v Verb) arrived(n ironic.Node) (bool, error) {
	state := node.State(n.ProvisionState)
	ended := state.Known() && state.Class() == node.Stable && n.TargetProvisionState == ""
	switch {
	case v.Arrives != "" && state == v.Arrives && n.TargetProvisionState == "":
		return true, nil
	case n.Retired && ended && state == v.ArrivesRetired:
		return true, nil
	case v.Stops && (ended || state.Class() == node.Failed):
		return true, nil
	case v.Arrives == "" && ended && state != node.ErrorState:
		return true, nil
	case state.Class() == node.Held:
		return false, heldError(n)
	case ended, state.Class() == node.Failed, state == node.ErrorState:
		return false, notReached(n, cmp.Or(v.Arrives, node.State(n.TargetProvisionState), "its target state"))
	}
	return false, nil
}

// reached reports whether the node is in the state wanted. An error means that the node has failed
// or is held, so it cannot reach the state by itself.
func reached(want node.State, n ironic.Node) (bool, error) {
	switch state := node.State(n.ProvisionState); {
	case state == want:
		return true, nil
	case state.Class() == node.Held:
		return false, heldError(n)
	case state.Class() == node.Failed, state == node.ErrorState:
		return false, notReached(n, want)
	}
	return false, nil
}

func heldError(n ironic.Node) error {
	return fmt.Errorf("node %s is in %s and continues only after the verb unhold", n.Label(), n.ProvisionState)
}

func notReached(n ironic.Node, want node.State) error {
	return fmt.Errorf("node %s did not become %s, it is in %s: %s", n.Label(), want, n.ProvisionState, reason(n.LastError))
}

func reason(text string) string { return cmp.Or(text, "the engine gives no reason") }

// NodeWait waits until nodes are in a state, whichever request leads to it.
type NodeWait struct {
	State    string
	Wait     Wait
	Interval time.Duration // see [ProvisionNodes]
}

// Run waits for one node after the other. The timeout is for all nodes together.
func (w NodeWait) Run(ctx context.Context, engine *ironic.Client, idents []string, to Streams) error {
	want := node.State(w.State)
	if want == "" {
		return &UsageError{errors.New("ingot node wait needs --state")}
	}
	if !want.Known() {
		return &UsageError{fmt.Errorf("--state is %q, it must be one of %s", w.State, strings.Join(States(), ", "))}
	}
	ctx, cancel := w.Wait.bounded(ctx)
	defer cancel()
	return eachNode(idents, len(idents) == 1, to.Err, func(ident string) error {
		return stateWatch(engine, ident, w.Interval, func(n ironic.Node) (bool, error) { return reached(want, n) }).run(ctx, to)
	})
}

// powerWatch waits until the node has the wanted power state and no power change is in progress.
func powerWatch(engine *ironic.Client, ident, want string, interval time.Duration) watch {
	return watch{kind: "node", label: ident, interval: interval, poll: func(ctx context.Context) (observation, error) {
		n, err := engine.Node(ctx, ident, "uuid", "name", "power_state", "target_power_state", "last_error")
		if err != nil {
			return observation{}, err
		}
		now := observation{state: cmp.Or(n.PowerState, "power unknown")}
		switch {
		case n.TargetPowerState != "":
		case n.PowerState == want:
			now.done = true
		case n.LastError != "":
			now.err = fmt.Errorf("node %s did not reach %s, it is in %s: %s", n.Label(), want, now.state, n.LastError)
		}
		return now, nil
	}}
}

// waitForAllocation waits until the engine has found a node for an allocation,
// and returns the allocation.
func waitForAllocation(ctx context.Context, engine *ironic.Client, uuid string, wait Wait, to Streams) (json.RawMessage, error) {
	ctx, cancel := wait.bounded(ctx)
	defer cancel()
	var raw json.RawMessage
	err := watch{kind: Allocations.Name, label: uuid, poll: func(ctx context.Context) (observation, error) {
		var err error
		if raw, err = engine.Document(ctx, "show allocation "+uuid, Allocations.listing(), uuid); err != nil {
			return observation{}, err
		}
		d, err := parseDocument(raw)
		if err != nil {
			return observation{}, err
		}
		now := observation{state: d.text("state")}
		switch now.state {
		case "active":
			now.done = true
		case "error":
			now.err = fmt.Errorf("allocation %s got no node: %s", uuid, reason(d.text("last_error")))
		}
		return now, nil
	}}.run(ctx, to)
	return raw, err
}
