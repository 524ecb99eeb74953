package ironic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Kinds of failure, to be tested with errors.Is. Each [*Error] has exactly one kind.
var (
	// ErrNotFound means that the requested object does not exist. The status is 404, and the answer
	// is from the API itself, because a proxy that has lost its engine answers 404, too.
	ErrNotFound = errors.New("not found")
	// ErrConflict means that the node is locked by work in progress, or in a state
	// that does not allow the request (409). It is often temporary.
	ErrConflict = errors.New("conflict")
	// ErrOverloaded means that the engine refuses work for now (429, 503).
	ErrOverloaded = errors.New("engine is overloaded")
	// ErrUnreachable means that no answer came: wrong address, engine down,
	// untrusted certificate, deadline.
	ErrUnreachable = errors.New("engine is unreachable")
	// ErrRejected means that the request is invalid (400, 405, 406, 413, 415).
	// Repeating it does not help.
	ErrRejected = errors.New("request rejected")
	// ErrDenied means wrong credentials or a protected node (401, 403).
	ErrDenied = errors.New("access denied")
	// ErrServer means that the engine has an internal error (other 5xx).
	ErrServer = errors.New("engine error")
	// ErrProtocol means that the answer is not an answer of the Bare Metal API. The endpoint is
	// another server, or the engine is too old or too new.
	ErrProtocol = errors.New("unexpected answer")
)

// Error is a failed call.
type Error struct {
	// Op says what was tried on which object: "show node 4f2c".
	Op string
	// Kind is one of the sentinels of this package.
	Kind error
	// Status is the HTTP status, 0 if no answer came.
	Status int
	// Message is the engine's reason, or the network error if there is no answer. It is one line of
	// at most 2 KiB, without credentials.
	Message string
	// RetryAfter is how long the engine asks to wait, 0 if it does not say.
	RetryAfter time.Duration
	// Cause is the underlying error, may be nil.
	Cause error
}

// Error returns what was tried and why it failed.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Kind)
	}
	return fmt.Sprintf("%s: %v: %s", e.Op, e.Kind, e.Message)
}

// Unwrap makes errors.Is find the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Retryable reports whether the same call may succeed later: the node is busy, or the
// engine is overloaded, fails or cannot be reached.
func Retryable(err error) bool {
	for _, kind := range []error{ErrConflict, ErrOverloaded, ErrUnreachable, ErrServer} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// kindOfStatus maps HTTP statuses to kinds. [kindOf] maps other statuses by class.
var kindOfStatus = map[int]error{
	http.StatusUnauthorized:       ErrDenied,
	http.StatusForbidden:          ErrDenied,
	http.StatusNotFound:           ErrNotFound,
	http.StatusConflict:           ErrConflict,
	http.StatusTooManyRequests:    ErrOverloaded,
	http.StatusServiceUnavailable: ErrOverloaded,
}

func kindOf(status int) error {
	if kind, ok := kindOfStatus[status]; ok {
		return kind
	}
	switch {
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrRejected
	default:
		return ErrProtocol
	}
}

// wrap turns an error of gophercloud into an [*Error]. If the caller's context has ended, wrap
// returns the context's error instead.
func (c *Client) wrap(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w", op, cause)
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		kind, message := kindOf(answer.Actual), faultText(answer.Body, answer.Actual)
		if answer.Actual == http.StatusNotFound && !isFault(answer.ResponseHeader, answer.Body) {
			kind = ErrProtocol
			message = "this is not an answer of the Bare Metal API; check the endpoint and the proxies before it: " + message
		}
		return &Error{
			Op:         op,
			Kind:       kind,
			Status:     answer.Actual,
			Message:    message,
			RetryAfter: retryAfter(answer.ResponseHeader),
			Cause:      err,
		}
	}
	var transport *url.Error
	if errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Op: op, Kind: ErrUnreachable, Message: c.endpoint + ": " + networkText(err), Cause: err}
	}
	return &Error{Op: op, Kind: ErrProtocol, Message: decodingText(err), Cause: err}
}

// decodingText returns what is wrong with an answer of status 200 that could not be decoded.
func decodingText(err error) string {
	var syntax *json.SyntaxError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &syntax):
		return "the answer is not JSON; check the endpoint"
	case errors.As(err, &tooLarge):
		return fmt.Sprintf("the answer is larger than %d MiB", tooLarge.Limit>>20)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer ends too early"
	}
	return cleanText(err.Error())
}

// retryAfter reads the Retry-After header in seconds. Engines do not use its form with a date.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// networkText returns in a few words why there was no answer.
func networkText(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "host name " + dns.Name + " does not resolve"
	case errors.As(err, &certificate):
		return "certificate is not trusted: " + cleanText(certificate.Err.Error())
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not use TLS; use http:// instead of https://"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	var transport *url.Error
	if errors.As(err, &transport) {
		return cleanText(transport.Err.Error())
	}
	return cleanText(err.Error())
}
