package node

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound: no such node, port or other resource.
	ErrNotFound = errors.New("not found")
	// ErrLocked: another request or a conductor holds the node's lease.
	ErrLocked = errors.New("locked")
	// ErrLeaseLost: this conductor no longer holds the lease under which the work runs. The work
	// must not write anything.
	ErrLeaseLost = errors.New("lease lost")
	// ErrBusy: a limit is reached (posts per second, nodes, workers); the same
	// request may succeed later.
	ErrBusy = errors.New("busy")
)

// NotFoundError names the object that was not found. It is an ErrNotFound.
type NotFoundError struct {
	Kind  string // "Node", "Port", "Driver", …
	Ident string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %s could not be found.", e.Kind, e.Ident)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// LockedError says who holds a node. It is an ErrLocked. Clients match the words
// "is locked by host".
type LockedError struct {
	Node   string // UUID
	Holder string // conductor host name
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("Node %s is locked by host %s, please retry after the current operation is completed.", e.Node, e.Holder)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// ValidationError refuses a request that can never succeed as it is (HTTP 400).
type ValidationError struct{ Reason string }

func (e *ValidationError) Error() string { return e.Reason }

// Invalid returns a *ValidationError with a formatted reason.
func Invalid(format string, args ...any) error {
	return &ValidationError{Reason: fmt.Sprintf(format, args...)}
}

// Choices lists the possible values, for the text of an error.
func Choices[S ~string](all []S) string {
	texts := make([]string, len(all))
	for i, choice := range all {
		texts[i] = string(choice)
	}
	return strings.Join(texts, ", ")
}

// ConflictError refuses a request that the present state does not allow (HTTP 409).
type ConflictError struct{ Reason string }

func (e *ConflictError) Error() string { return e.Reason }

// Conflict returns a *ConflictError with a formatted reason.
func Conflict(format string, args ...any) error {
	return &ConflictError{Reason: fmt.Sprintf(format, args...)}
}

// ForbiddenError refuses a request because the node is protected (HTTP 403).
type ForbiddenError struct{ Reason string }

func (e *ForbiddenError) Error() string { return e.Reason }

// TransitionError refuses a verb that the node's provision state does not allow
// (HTTP 400).
type TransitionError struct {
	Node  string // UUID
	Verb  string // as the client sent it
	State State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("The requested action %q can not be performed on node %q while it is in state %q.", e.Verb, e.Node, e.State)
}

// BusyError is a reached limit with a reason for clients (HTTP 503).
type BusyError struct{ Reason string }

func (e *BusyError) Error() string { return e.Reason }

// Is makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// DriverError is a failure of a BMC or an agent.
type DriverError struct {
	Op        string // what was tried, "read power state"
	Retryable bool   // true when the same call may succeed later
	// Refused says that the machine did nothing. Otherwise a failed call may have
	// changed the machine all the same.
	Refused bool
	// RetryAfter is how long the machine asks to be left alone, at most some minutes; 0 when it
	// does not say.
	RetryAfter time.Duration
	Reason     string // for people, shortened by CutText, without credentials
}

func (e *DriverError) Error() string { return e.Op + ": " + e.Reason }

// maxOutsideText bounds text that came from a BMC, an agent or a client before
// it enters an error, a log or the database, in bytes.
const maxOutsideText = 2048

// CutText shortens text from outside to 2 KiB, replaces control characters and masks
// credentials in URLs, so that it is safe in an error message, a log line and on a
// terminal.
func CutText(text string) string { return CutTextTo(text, maxOutsideText) }

// CutTextTo is CutText with another limit, in bytes, for fields with less room.
func CutTextTo(text string, limit int) string {
	const mark = " … (cut)"
	text = MaskURLs(strings.ToValidUTF8(text, "�"))
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}

// NotSupportedError refuses a request that the interface chosen by the node does not
// support (HTTP 400, or 404 where the API says so).
type NotSupportedError struct {
	Node      string // UUID
	Interface string // field, such as "bios_interface"
	Name      string // the chosen implementation
	What      string // the requested ability
}

func (e *NotSupportedError) Error() string {
	return fmt.Sprintf("Node %s does not support %s: its %s is %q.", e.Node, e.What, e.Interface, e.Name)
}
