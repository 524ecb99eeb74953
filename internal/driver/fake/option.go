package fake

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// operations are the names of operations in the keys fake_<operation>_delay, _wait and
// _error of driver_info.
var operations = []string{
	"power", "verify", "inspect", "clean", "deploy", "undeploy", "adopt", "rescue", "unrescue", "service", "management",
}

// Endings of the keys of driver_info, by what they set.
const (
	delayPart = "_delay" // seconds that the operation takes under work
	waitPart  = "_wait"  // seconds that it then spends in a waiting state
	errorPart = "_error" // text; the operation fails with it at its end
)

// play makes one turn of an operation as the node's driver_info says.
func play(n *node.Node, operation string, turn driver.Turn) (driver.Outcome, error) {
	if n.DriverInfo.IsEmpty() {
		return driver.Outcome{}, nil
	}
	delay, err := seconds(n, operation+delayPart)
	if err != nil {
		return driver.Outcome{}, err
	}
	wait, err := seconds(n, operation+waitPart)
	if err != nil {
		return driver.Outcome{}, err
	}
	switch {
	case turn.Elapsed < delay:
		return driver.Outcome{Again: delay - turn.Elapsed}, nil
	case turn.Elapsed < delay+wait:
		return driver.Outcome{Park: delay + wait - turn.Elapsed}, nil
	}
	return driver.Outcome{}, failure(n, operation)
}

// failure returns the failure that the node's driver_info demands, or nil. It names the
// key; the caller names the node.
func failure(n *node.Node, operation string) error {
	text := n.DriverInfo.Text(key(operation + errorPart))
	if text == "" {
		return nil
	}
	return &node.DriverError{Op: key(operation + errorPart), Reason: node.CutText(text)}
}

func key(name string) string { return "fake_" + name }

// maxSeconds is the longest delay or wait that a node may set, in seconds.
const maxSeconds = 7 * 24 * 3600

// seconds reads a number of seconds, which may be a string.
func seconds(n *node.Node, name string) (time.Duration, error) {
	raw, ok := n.DriverInfo.Fields()[key(name)]
	if !ok {
		return 0, nil
	}
	var seconds float64
	var text string
	err := json.Unmarshal(raw, &seconds)
	if err != nil && json.Unmarshal(raw, &text) == nil {
		seconds, err = strconv.ParseFloat(text, 64)
	}
	if err != nil || !(seconds >= 0 && seconds <= maxSeconds) {
		return 0, node.Invalid("driver_info.%s of node %s must be a number of seconds from 0 to %d, got %s.",
			key(name), n.UUID, maxSeconds, node.CutText(string(raw)))
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// validate checks every key that fake hardware reads.
func validate(n *node.Node) error {
	if n.DriverInfo.IsEmpty() {
		return nil
	}
	for _, operation := range operations {
		for _, part := range []string{delayPart, waitPart} {
			if _, err := seconds(n, operation+part); err != nil {
				return err
			}
		}
	}
	return validateMachine(n)
}

// machineKey is the key of driver_info for the URL of a node's machine.
var machineKey = key("machine")

func validateMachine(n *node.Node) error {
	raw, ok := n.DriverInfo.Fields()[machineKey]
	if !ok {
		return nil
	}
	parsed, err := url.Parse(n.DriverInfo.Text(machineKey))
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return node.Invalid("driver_info.%s of node %s must be the URL of a machine, such as http://127.0.0.1:8099/machines/m1, got %s.",
			machineKey, n.UUID, node.CutText(string(raw)))
	}
	return nil
}

// Properties describes every key that fake hardware reads.
func (Hardware) Properties() map[string]string {
	all := map[string]string{
		key("power_state"):       "power on or power off: the state that the machine reports, whatever state was requested. Optional.",
		key(reading + errorPart): "Text with which reading the power state fails. Optional.",
		machineKey:               "URL of a machine that carries out what is done to the node and keeps a log of it. Optional.",
		key("bmc"):               "Name of the BMC that the node shares with others. The default is the host of " + machineKey + ". Optional.",
	}
	for _, operation := range operations {
		all[key(operation+delayPart)] = "Seconds that " + operation + " takes, or each of its steps. The default is 0."
		all[key(operation+waitPart)] = "Seconds that " + operation + " then spends in a waiting state, if it has one. The default is 0."
		all[key(operation+errorPart)] = "Text with which " + operation + " fails at its end. Optional."
	}
	return all
}
