package ironic

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// faults maps refusals of the engine to the kinds that the operator distinguishes. The first row
// that matches counts. The API has one status for refusals that end by themselves and for others,
// so only the text of the fault tells them apart. No other file reads such texts. Rows without an
// engine's name hold for both engines.
var faults = []struct {
	client   error  // kind of the client's error
	status   int    // HTTP status; 0 for any
	text     string // part of the engine's sentence; "" for any
	operator error
}{
	{ironic.ErrNotFound, 0, "", provisioner.ErrNotFound},

	{ironic.ErrConflict, 409, "is locked by host", provisioner.ErrBusy},
	// Ironic: a patch during work, or while an inspection begins.
	{ironic.ErrConflict, 409, "state transition is in progress", provisioner.ErrBusy},
	{ironic.ErrConflict, 409, "Cannot update node", provisioner.ErrBusy},
	// Ingot: the same; a step that writes firmware; another conductor has the node.
	{ironic.ErrConflict, 409, "wait until the work ends", provisioner.ErrBusy},
	{ironic.ErrConflict, 409, "cannot be interrupted", provisioner.ErrBusy},
	{ironic.ErrConflict, 409, "took the node over", provisioner.ErrBusy},
	// A list that changed while it was read.
	{ironic.ErrConflict, 404, "", provisioner.ErrBusy},
	{ironic.ErrConflict, 0, "", provisioner.ErrConflict},

	// A verb in the wrong state.
	{ironic.ErrRejected, 400, "can not be performed on node", provisioner.ErrConflict},
	{ironic.ErrRejected, 400, "in maintenance", provisioner.ErrConflict},
	{ironic.ErrRejected, 400, "does not support", provisioner.ErrUnsupported},
	{ironic.ErrRejected, 400, "is not supported", provisioner.ErrUnsupported},
	{ironic.ErrRejected, 405, "", provisioner.ErrUnsupported},
	{ironic.ErrRejected, 406, "", provisioner.ErrUnsupported},
	{ironic.ErrRejected, 0, "", provisioner.ErrInvalid},

	{ironic.ErrDenied, 0, "", provisioner.ErrDenied},

	// Another server at the endpoint counts as an engine that does not answer, because
	// nothing is known about the node then.
	{ironic.ErrOverloaded, 0, "", provisioner.ErrUnreachable},
	{ironic.ErrUnreachable, 0, "", provisioner.ErrUnreachable},
	{ironic.ErrServer, 0, "", provisioner.ErrUnreachable},
	{ironic.ErrProtocol, 0, "", provisioner.ErrUnreachable},
}

// refusesFields reports whether the engine refused a request only because of the fields that the
// request chooses.
func refusesFields(err error) bool {
	var failed *ironic.Error
	if !errors.As(err, &failed) || !errors.Is(err, ironic.ErrRejected) {
		return false
	}
	return strings.Contains(failed.Message, "is not a valid field") || strings.Contains(failed.Message, "are not valid")
}

// translate gives an error of the client the kind that the operator distinguishes. The text of the
// error stays.
func translate(err error) error {
	var failed *ironic.Error
	if !errors.As(err, &failed) {
		return err
	}
	for _, f := range faults {
		if errors.Is(err, f.client) && (f.status == 0 || f.status == failed.Status) && strings.Contains(failed.Message, f.text) {
			return &kindError{kind: f.operator, err: err}
		}
	}
	return err
}

// translateOfBMC is translate for a call that the BMC answers while the engine waits. Both engines
// pass a refusal of the BMC on as an internal error.
func translateOfBMC(err error) error {
	var failed *ironic.Error
	if errors.As(err, &failed) && failed.Status == http.StatusInternalServerError {
		return &kindError{kind: provisioner.ErrFailed, err: err}
	}
	return translate(err)
}

// laterOfBMC are the beginnings of the sentences with which Ingot says that a BMC may tell its boot
// device later: the BMC has failed, or is busy with earlier calls.
var laterOfBMC = []string{"read boot device: ", "call the BMC of node "}

// translateOfAccess is translateOfBMC for reading the boot device. The status is the same if an
// engine is away and if the BMC may answer later, so the text decides.
func translateOfAccess(err error) error {
	var failed *ironic.Error
	if errors.As(err, &failed) && errors.Is(err, ironic.ErrOverloaded) &&
		slices.ContainsFunc(laterOfBMC, func(text string) bool { return strings.Contains(failed.Message, text) }) {
		return &kindError{kind: provisioner.ErrFailed, err: err}
	}
	return translateOfBMC(err)
}

// kindError is an error of the client under a kind of the operator.
type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
