package driver

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// fakeOperations are what fake hardware does, as they stand in the keys
// fake_<operation>_delay, _wait and _error of driver_info.
var fakeOperations = []string{
	"power", "verify", "inspect", "clean", "deploy", "undeploy", "adopt", "rescue", "unrescue", "service", "management",
}

// Parts of a fake's behaviour that a node may set.
const (
	fakeDelay = "_delay" // seconds that the operation takes under work
	fakeWait  = "_wait"  // seconds that it then spends in a waiting state
	fakeError = "_error" // text; the operation fails with it at its end
)

// fakeTurn plays one turn of an operation as the node's driver_info says.
func fakeTurn(n *node.Node, operation string, turn Turn) (Outcome, error) {
	if n.DriverInfo.IsEmpty() {
		return Outcome{}, nil
	}
	delay, err := fakeSeconds(n, operation+fakeDelay)
	if err != nil {
		return Outcome{}, err
	}
	wait, err := fakeSeconds(n, operation+fakeWait)
	if err != nil {
		return Outcome{}, err
	}
	switch {
	case turn.Elapsed < delay:
		return Outcome{Again: delay - turn.Elapsed}, nil
	case turn.Elapsed < delay+wait:
		return Outcome{Park: delay + wait - turn.Elapsed}, nil
	}
	return Outcome{}, fakeFailure(n, operation)
}

// fakeFailure returns the failure that the node asks for, if any. It names the key
// that does; who the node is says the caller.
func fakeFailure(n *node.Node, operation string) error {
	text := n.DriverInfo.Text(fakeKey(operation + fakeError))
	if text == "" {
		return nil
	}
	return &node.DriverError{Op: fakeKey(operation + fakeError), Reason: node.CutText(text)}
}

func fakeKey(name string) string { return "fake_" + name }

// maxFakeSeconds bounds what a node may ask for, in seconds.
const maxFakeSeconds = 7 * 24 * 3600

// fakeSeconds reads a number of seconds, which may be a string.
func fakeSeconds(n *node.Node, name string) (time.Duration, error) {
	raw, ok := n.DriverInfo.Fields()[fakeKey(name)]
	if !ok {
		return 0, nil
	}
	var seconds float64
	var text string
	err := json.Unmarshal(raw, &seconds)
	if err != nil && json.Unmarshal(raw, &text) == nil {
		seconds, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !(seconds >= 0 && seconds <= maxFakeSeconds) {
		return 0, node.Invalid("driver_info.%s of node %s must be a number of seconds from 0 to %d, got %s.",
			fakeKey(name), n.UUID, maxFakeSeconds, node.CutText(string(raw)))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// validateFake checks every key that fake hardware reads.
func validateFake(n *node.Node) error {
	if n.DriverInfo.IsEmpty() {
		return nil
	}
	for _, operation := range fakeOperations {
		for _, part := range []string{fakeDelay, fakeWait} {
			if _, err := fakeSeconds(n, operation+part); err != nil {
				return err
			}
		}
	}
	return nil
}
