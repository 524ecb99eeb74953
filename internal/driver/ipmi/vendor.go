package ipmi

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// vendorInterface is the vendor interface of the driver.
type vendorInterface struct{ Driver }

var _ driver.Vendor = vendorInterface{}

// Commands that restart the BMC (sections 20.2 and 20.3).
var (
	coldReset = command{0x06, 0x02}
	warmReset = command{0x06, 0x03}
)

// Vendor methods, by the names that clients of Ironic use.
const (
	sendRaw  = "send_raw"
	resetBMC = "bmc_reset"
)

var vendorMethods = map[string]node.VendorMethod{
	sendRaw: {
		HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true,
		Description: "Send a request to the BMC: raw_bytes has the network function, the command and the data, such as \"0x00 0x01\".",
	},
	resetBMC: {
		HTTPMethods: []string{"POST"}, Async: true, RequireExclusiveLock: true,
		Description: "Restart the BMC, which leaves the machine as it is. Optional: warm (default true); false restarts all of it.",
	},
}

// Methods lists the methods.
func (vendorInterface) Methods() map[string]node.VendorMethod { return maps.Clone(vendorMethods) }

// Call sends one request, which may change anything. It does not repeat a request whose outcome is
// unknown.
func (v vendorInterface) Call(ctx context.Context, n *node.Node, _, method string, body node.Object, turn driver.Turn) ([]byte, error) {
	op := "run vendor method " + method
	if turn.Attempt == driver.Unknown {
		return nil, driver.OutcomeUnknown(op)
	}
	request, data, err := vendorRequest(n, method, body)
	if err != nil {
		return nil, err
	}
	return nil, v.with(ctx, n, op, turn, func(c *call) error { return c.change(ctx, request, data...) })
}

// vendorRequest returns the request of a method. The error is a *node.ValidationError.
func vendorRequest(n *node.Node, method string, body node.Object) (request command, data []byte, err error) {
	switch method {
	case sendRaw:
		return rawRequest(n, body.Text("raw_bytes"))
	case resetBMC:
		value, given := body.Fields()["warm"]
		warm, err := strconv.ParseBool(strings.Trim(string(value), `"`))
		switch {
		case given && err != nil:
			return command{}, nil, node.Invalid("The argument warm of %s for node %s must be true or false.", resetBMC, n.UUID)
		case given && !warm:
			return coldReset, nil, nil
		}
		return warmReset, nil, nil
	}
	return command{}, nil, node.Invalid("Node %s has no vendor method %q.", n.UUID, node.CutText(method))
}

// maxRaw is how many bytes a request may have, so that it fits into a datagram of every BMC.
const maxRaw = 255

// rawRequest reads bytes as ipmitool does: numbers between spaces, hexadecimal with 0x.
func rawRequest(n *node.Node, text string) (request command, data []byte, err error) {
	words := strings.Fields(text)
	bytes := make([]byte, 0, min(len(words), maxRaw))
	for _, word := range words {
		value, err := strconv.ParseUint(word, 0, 8)
		if err != nil || len(bytes) == maxRaw {
			return command{}, nil, node.Invalid("The argument raw_bytes of %s for node %s must have at most %d numbers from 0x00 to 0xff, with spaces between them.", sendRaw, n.UUID, maxRaw)
		}
		bytes = append(bytes, byte(value))
	}
	if len(bytes) < 2 {
		return command{}, nil, node.Invalid("The argument raw_bytes of %s for node %s must begin with a network function and a command.", sendRaw, n.UUID)
	}
	return command{bytes[0], bytes[1]}, bytes[2:], nil
}
