package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// softPowerSince is the microversion 1.N that introduced soft power targets and timeout.
const softPowerSince = 27

// powerTargets maps the targets of states/power to the microversions 1.N that introduced
// them.
var powerTargets = map[node.PowerState]int{
	node.PowerOn: 1, node.PowerOff: 1, node.Rebooting: 1, node.SoftPowerOff: softPowerSince, node.SoftRebooting: softPowerSince,
}

// maxPowerTimeout is the largest timeout of a power change, in seconds.
const maxPowerTimeout = 24 * 3600

// powerRequest is the body of PUT states/power.
type powerRequest struct {
	Target  node.PowerState `json:"target"`
	Timeout json.RawMessage `json:"timeout"` // seconds, at least 1; null means the engine's default
}

// setPower answers 202 when the change is accepted. The client polls the node for the
// outcome.
func (a *api) setPower(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	var request powerRequest
	if err := decodeBody(w, r, maxBody, &request); err != nil {
		return err
	}
	since, known := powerTargets[request.Target]
	switch {
	case !known:
		return badRequest("Unknown target power state %q; the known targets are %s.", node.CutText(string(request.Target)),
			node.Choices([]node.PowerState{node.PowerOn, node.PowerOff, node.Rebooting, node.SoftPowerOff, node.SoftRebooting}))
	case since > c.version:
		return notAcceptable(fmt.Sprintf("The power state %q", request.Target), since)
	case !isNull(request.Timeout) && c.version < softPowerSince:
		return notAcceptable("The timeout of a power change", softPowerSince)
	}
	timeout := time.Duration(0)
	if !isNull(request.Timeout) {
		var seconds int
		if err := json.Unmarshal(request.Timeout, &seconds); err != nil || seconds < 1 || seconds > maxPowerTimeout {
			return badRequest("The timeout of a power change must be a whole number of seconds from 1 to %d, got %s.",
				maxPowerTimeout, node.CutText(string(request.Timeout)))
		}
		timeout = time.Duration(seconds) * time.Second
	}
	if err := a.engine.SetPower(r.Context(), ident, request.Target, timeout); err != nil {
		return fmt.Errorf("set power of node %s: %w", ident, err)
	}
	acceptedAt(w, c, ident, "/states")
	return nil
}
