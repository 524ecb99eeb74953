package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

// errorForm selects one of the error bodies of the API.
type errorForm int

const (
	faultForm  errorForm = iota // {"error_message": "<fault as JSON text>"}
	routerForm                  // the same with code and title, for requests that reached no handler
	bareForm                    // the fault itself, for request bodies over their limit
)

// apiError is an error that this package itself reports.
type apiError struct {
	status  int
	form    errorForm
	message string // for the client
	cause   error  // for the log only; may be nil
}

func (e *apiError) Error() string {
	if e.cause != nil {
		return e.message + " " + e.cause.Error()
	}
	return e.message
}

func badRequest(format string, args ...any) error {
	return &apiError{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// notAcceptable returns a 406: the requested microversion is too old for what.
func notAcceptable(what string, since int) error {
	return &apiError{
		status:  http.StatusNotAcceptable,
		message: fmt.Sprintf("%s needs API version 1.%d or newer.", what, since),
	}
}

func routerError(status int, format string, args ...any) error {
	return &apiError{status: status, form: routerForm, message: fmt.Sprintf(format, args...)}
}

// domainStatus maps the error types of the domain to statuses. The first match
// decides.
var domainStatus = []struct {
	status int
	match  func(error) (text string, ok bool) // text is what the client reads
}{
	{http.StatusNotFound, as[*node.NotFoundError]},
	{http.StatusConflict, as[*node.LockedError]},
	{http.StatusConflict, as[*node.SuspendedError]},
	{http.StatusBadRequest, as[*node.ValidationError]},
	{http.StatusBadRequest, as[*node.TransitionError]},
	{http.StatusConflict, as[*node.ConflictError]},
	{http.StatusForbidden, as[*node.ForbiddenError]},
	{http.StatusBadRequest, as[*node.NotSupportedError]},
	{http.StatusNotFound, is(node.ErrNotFound, "The requested resource could not be found.")},
	{http.StatusConflict, is(node.ErrLocked, "The node is locked by host unknown, please retry after the current operation is completed.")},
	{http.StatusConflict, is(node.ErrLeaseLost, "Another conductor took the node over, please retry.")},
	{http.StatusServiceUnavailable, as[*node.BusyError]},
	{http.StatusServiceUnavailable, is(node.ErrBusy, "The engine is at one of its limits, please retry.")},
	{http.StatusServiceUnavailable, as[*node.UnavailableError]},
	{http.StatusServiceUnavailable, is(node.ErrUnavailable, "The database is not available, please retry.")},
	{http.StatusServiceUnavailable, is(context.DeadlineExceeded, "The engine did not answer in time, please retry.")},
}

// as matches errors of type T. Clients may read the text of such an error.
func as[T error](err error) (string, bool) {
	var target T
	if !errors.As(err, &target) {
		return "", false
	}
	return target.Error(), true
}

// is matches a sentinel error. Clients read text instead of the error's own text.
func is(sentinel error, text string) func(error) (string, bool) {
	return func(err error) (string, bool) { return text, errors.Is(err, sentinel) }
}

// statusOf returns the status and the text for the client. It is the only place that decides the
// status of an error. An unexpected error becomes a 500, and only the log has its reason.
func statusOf(err error) *apiError {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return bodyTooLarge(tooLarge.Limit)
	}
	for _, row := range domainStatus {
		if text, ok := row.match(err); ok {
			return &apiError{status: row.status, message: text}
		}
	}
	var hardware *node.DriverError
	if errors.As(err, &hardware) {
		status := http.StatusInternalServerError
		if hardware.Retryable {
			status = http.StatusServiceUnavailable
		}
		return &apiError{status: status, message: hardware.Error()}
	}
	return &apiError{status: http.StatusInternalServerError, message: "The engine failed to process this request; its log has the reason under the request ID."}
}

// retryAfter is the Retry-After of an answer in seconds, by status; 0 means none.
// A 409 has none, although a client should retry when a node is locked:
// python-ironicclient fails on that header instead of retrying.
func retryAfter(status int) int {
	if status == http.StatusServiceUnavailable {
		return 5
	}
	return 0
}

// fault is the error object of the API. Only router errors have code, title and
// message.
type fault struct {
	FaultCode   string  `json:"faultcode"`
	FaultString string  `json:"faultstring"`
	DebugInfo   *string `json:"debuginfo"`
	Code        string  `json:"code,omitempty"`
	Title       string  `json:"title,omitempty"`
	Message     string  `json:"message,omitempty"`
}

// body returns e as JSON for the client. Except in bareForm, the fault is JSON text
// inside a JSON string, as every client of this API expects.
func (e *apiError) body() []byte {
	f := fault{FaultCode: "Client", FaultString: node.CutText(e.message)}
	if e.status >= http.StatusInternalServerError {
		f.FaultCode = "Server"
	}
	if e.form == routerForm {
		f.Title = http.StatusText(e.status)
		f.Code = fmt.Sprintf("%d %s", e.status, f.Title)
		f.Message = f.FaultString
	}
	text, err := json.Marshal(f)
	if err == nil && e.form != bareForm {
		text, err = json.Marshal(map[string]string{"error_message": string(text)})
	}
	if err != nil { // strings always marshal
		return nil
	}
	return text
}
