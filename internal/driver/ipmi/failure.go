package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/ingot-metal/ingot/internal/node"
)

// completion is the completion code of an answer (table 5-2).
type completion byte

// completionRow says what a completion code means.
type completionRow struct {
	text string
	// refuses: the BMC has done nothing.
	refuses bool
	// passes: the same request may succeed later.
	passes bool
}

// completions has the codes of which more is known than that the request failed.
var completions = map[completion]completionRow{
	0x80: {"there is no such parameter", true, false},
	0x81: {"another client is changing the parameters", true, true},
	0x82: {"the parameter is read-only", true, false},
	0xC0: {"the BMC is busy", true, true},
	0xC1: {"the BMC does not have this command", true, false},
	0xC2: {"the BMC does not have this command", true, false},
	0xC3: {"the BMC did not finish in time", false, true},
	0xC4: {"the BMC is out of space", true, true},
	0xC6: {"the request is too short", true, false},
	0xC7: {"the request has the wrong length", true, false},
	0xC8: {"the request is too long", true, false},
	0xC9: {"a parameter is out of range", true, false},
	0xCC: {"the request has a field that the BMC does not accept", true, false},
	0xCD: {"the request is not allowed for this object", true, false},
	0xCE: {"the BMC could not answer", false, true},
	0xD0: {"the data of the BMC are being updated", true, true},
	0xD1: {"the firmware of the BMC is being updated", true, true},
	0xD2: {"the BMC is starting", true, true},
	0xD4: {"the session's privilege level is too low: set ipmi_priv_level to one that allows it, and give the account that level", true, false},
	0xD5: {"the machine's state does not allow it now", true, true},
	0xD6: {"the BMC has this function disabled", true, false},
	0xFF: {"the BMC failed without a reason", false, true},
}

// completionError is an answer with a completion code that is not zero.
type completionError struct{ code completion }

func (e *completionError) Error() string {
	row, ok := completions[e.code]
	if !ok {
		row.text = "the BMC refused the request or failed"
	}
	return fmt.Sprintf("it answered with the completion code %#02x: %s", byte(e.code), row.text)
}

// isRefusal reports whether a BMC answered that it has not done what it was asked. An
// unknown code may mean anything.
func isRefusal(err error) bool {
	var answer *completionError
	return errors.As(err, &answer) && completions[answer.code].refuses
}

// unsupported are the completion codes with which a BMC answers that it does not have a
// parameter: those for it (80h, 82h), and the general ones of BMCs that check no further (table
// 5-2).
var unsupported = []completion{0x80, 0x82, 0xC9, 0xCC, 0xD6}

// lacksParameter reports whether a BMC answered that it does not have the parameter, or that
// nobody can write it.
func lacksParameter(err error) bool {
	var answer *completionError
	return errors.As(err, &answer) && slices.Contains(unsupported, answer.code)
}

// statuses are the reasons for which a BMC opens no session.
var statuses = map[status]string{
	statusNoResources:        "others hold all its sessions",
	statusInvalidRole:        "the account does not have the privilege level: set ipmi_priv_level to the one that it has",
	statusUnauthorizedRole:   "the account does not have the privilege level: set ipmi_priv_level to the one that it has",
	statusNoResourcesForRole: "others hold all its sessions of this privilege level",
	statusUnauthorizedName:   "it refuses the user name or password",
	statusWrongCode:          "it refuses the user name or password",
	statusNoSuite:            "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusIllegalParameter:   "it does not know a parameter of the request, such as the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusNoAuthentication:   "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusNoIntegrity:        "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusNoAuthPayload:      "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusNoIntegrityPayload: "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
	statusNoConfidentiality:  "it does not have the cipher suite: enable 17 or 3 on the BMC, or correct ipmi_cipher_suite",
}

func reasonOf(s status) string {
	why, ok := statuses[s]
	if !ok {
		why = fmt.Sprintf("its status is %#02x", byte(s))
	}
	return "the BMC opens no session: " + why
}

// failure turns an error of the session or the network into one of the driver.
func (c *call) failure(op string, err error) error {
	var invalid *node.ValidationError
	var known *node.DriverError
	if err == nil || errors.As(err, &invalid) || errors.As(err, &known) {
		return err
	}
	return &node.DriverError{Op: op, Retryable: retryable(err), Refused: c.refused(), Reason: node.CutText(c.reason(err))}
}

// retryable reports whether the same call may succeed later.
func retryable(err error) bool {
	var answer *completionError
	var opening *statusError
	switch {
	case isRefusedLogin(err): // a BMC that starts refuses right ones, too
		return true
	case errors.As(err, &answer):
		row, ok := completions[answer.code]
		return !ok || row.passes
	case errors.As(err, &opening):
		return opening.status == statusNoResources || opening.status == statusNoResourcesForRole
	}
	return !errors.Is(err, errNotTheBMC)
}

// reason returns the sentence for people.
func (c *call) reason(err error) string {
	switch {
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return "the BMC at " + c.access.address + " did not answer in time: check ipmi_address and ipmi_port, that IPMI over LAN is enabled on the BMC, and that the engine reaches it over UDP"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing answers at " + c.access.address + ": check ipmi_address and ipmi_port, and that IPMI over LAN is enabled on the BMC"
	}
	return strings.TrimPrefix(err.Error(), "receive: ")
}
