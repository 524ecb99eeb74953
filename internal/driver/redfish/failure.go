package redfish

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/login"
	"github.com/ingot-metal/ingot/internal/node"
)

// trace records the requests of one call: whether requests that change something were sent, and how
// much the BMC has answered.
type trace struct {
	origin   string // who makes the call; empty for a call that only reads
	registry bool   // the next answer is the registry of BIOS attributes
	read     atomic.Int64
	answers  atomic.Int64 // number of answers

	mu      sync.Mutex
	sent    bool          // a request that changes something was begun
	changed bool          // such a request may have had its effect
	pause   time.Duration // that the last answer asks for
}

type traceKey struct{}

func withTrace(ctx context.Context, o driver.Origin) (context.Context, *trace) {
	t := &trace{}
	if o != (driver.Origin{}) {
		t.origin = fmt.Sprintf("%s/%d/%s", o.Conductor, o.Epoch, o.Request)
	}
	return context.WithValue(ctx, traceKey{}, t), t
}

func traceOf(ctx context.Context) *trace {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		return t
	}
	return &trace{}
}

func changes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// reads counts bytes of an answer, and reports whether the call may read on.
func (t *trace) reads(n int) bool { return t.read.Add(int64(n)) <= maxAnswers }

// most bounds the next answer, in bytes.
func (t *trace) most() int {
	if t.registry {
		return maxRegistry
	}
	return maxDocument
}

// begins notes a request before it is sent.
func (t *trace) begins(method string) {
	if changes(method) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sent = true
	}
}

// ends notes how a request ended: only a refusal, or a failure before anything was
// sent, is sure to have changed nothing.
func (t *trace) ends(method string, answer *http.Response, err error) {
	if !changes(method) || err != nil && neverSent(err) {
		return
	}
	if err == nil && answer.StatusCode >= 400 && answer.StatusCode < 500 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}

// asksFor notes how long the BMC asks to be left alone.
func (t *trace) asksFor(pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause = pause
}

// retryAfter returns how long the BMC asked in its last answer to be left alone.
func (t *trace) retryAfter() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pause
}

// mayHaveChanged reports whether a request may have had its effect.
func (t *trace) mayHaveChanged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// refused reports whether a failed call is sure to have changed nothing. A failed read proves
// nothing about a change that an earlier call may have made, unless the turn shows that there was
// none: the attempt is fresh or was refused, or the last turn succeeded and this one has still to
// send the request of its phase.
func (t *trace) refused(turn driver.Turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	unsent := turn.Attempt == driver.Continued && phases[turn.Phase].unsent
	return !t.changed && (t.sent || unsent || turn.Attempt == driver.Fresh || turn.Attempt == driver.Refused)
}

// neverSent reports whether a request failed before anything of it was sent.
func neverSent(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return true
	}
	return isCertificate(err)
}

func isCertificate(err error) bool {
	var invalid *tls.CertificateVerificationError
	return errors.As(err, &invalid)
}

// loginError is the error of a login in which the BMC granted no session.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// statusOf returns the HTTP status of an error answer, or 0 without an answer. It also returns 0
// for a failed login, which tells nothing about the request that needed the session.
func statusOf(err error) int {
	var login *loginError
	if errors.As(err, &login) {
		return 0
	}
	return answered(err)
}

// answered returns the HTTP status of an error answer, including the answer to a login, or 0
// without an answer.
func answered(err error) int {
	var answer *schemas.Error
	if errors.As(err, &answer) {
		return answer.HTTPReturnedStatusCode
	}
	return 0
}

// credentialMessages are the messages, by the end of their identifier, with which a refused login
// says that the credentials are wrong.
var credentialMessages = []string{
	"ResourceAtUriUnauthorized", // Base registry
	"UnauthorizedLoginAttempt",  // iLO
}

// sessionMessages are messages of the Base registry with which a refused login gives another
// reason than the credentials.
var sessionMessages = []string{"SessionLimitExceeded", "ServiceDisabled", "InsufficientPrivilege"}

// refusesCredentials reports whether a BMC says that the user name or password is wrong. The status
// for that is 401, but some BMCs answer a login with 403, or with 400 and a message.
func refusesCredentials(err error) bool {
	var login *loginError
	status := answered(err)
	switch {
	case status == http.StatusUnauthorized:
		return true
	case !errors.As(err, &login):
		return false
	case status == http.StatusForbidden:
		return !saysOneOf(err, sessionMessages) && !temporary(err)
	}
	return status == http.StatusBadRequest && saysOneOf(err, credentialMessages)
}

// mayRefuse reports whether wrong credentials may be the reason why a BMC granted no session,
// although the BMC does not say so.
func mayRefuse(ungranted error) bool {
	status := answered(ungranted)
	return status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests &&
		!saysOneOf(ungranted, sessionMessages) && !temporary(ungranted)
}

// manyAnswers is the number of answers from which on a call that took too long shows a slow BMC,
// and not one that does not answer.
const manyAnswers = 5

// failure turns an error of the library or the network into one of the driver.
func (c *call) failure(op string, err error) error {
	var invalid *node.ValidationError
	var known *node.DriverError
	var missing *node.NotSupportedError
	var denied *login.RefusedError
	switch {
	case err == nil, errors.As(err, &invalid), errors.As(err, &missing):
		return err
	case errors.As(err, &known): // may quote the BMC
		cleaned := *known
		cleaned.Reason = c.cleaned(known.Reason)
		return &cleaned
	}
	why := reason(err)
	if answers := c.trace.answers.Load(); errors.Is(err, context.DeadlineExceeded) && answers >= manyAnswers {
		why = fmt.Sprintf("the BMC answered %d requests of one call, and no more in time: if it is slow, raise conductor.call_timeout", answers)
	}
	failed := &node.DriverError{
		Op: op, Retryable: retryable(err), Refused: c.trace.refused(c.turn), RetryAfter: c.trace.retryAfter(),
		Reason: node.CutText(c.cleaned(why)),
	}
	if errors.As(err, &denied) {
		return &deniedError{DriverError: failed, denied: denied}
	}
	return failed
}

// deniedError is the failure of a call that was not made, or not completed, because the BMC has
// refused the credentials.
type deniedError struct {
	*node.DriverError
	denied *login.RefusedError
}

func (e *deniedError) Unwrap() []error { return []error{e.DriverError, e.denied} }

// cleaned removes the credentials from a text, should the BMC repeat them.
func (c *call) cleaned(text string) string {
	a := c.bmc.access
	basic := base64.StdEncoding.EncodeToString([]byte(a.username + ":" + a.password)) // as sent
	for _, secret := range []string{basic, a.password, c.bmc.kept().token} {
		if len(secret) > 3 { // a shorter one would take words out of the text
			text = strings.ReplaceAll(text, secret, "******")
		}
	}
	return text
}

// tryLater are the statuses of refusals that may end by themselves.
var tryLater = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests,
}

// retryable reports whether the same call may succeed later.
func retryable(err error) bool {
	status := statusOf(err)
	switch {
	case isCertificate(err):
		return false
	case refusesCredentials(err): // a BMC that starts refuses right ones, too
		return true
	case status >= 400 && status < 500:
		return slices.Contains(tryLater, status) || temporary(err)
	}
	return true
}

// reason returns the sentence for people.
func reason(err error) string {
	var answer *schemas.Error
	var unknown x509.UnknownAuthorityError
	var login *loginError
	var network *net.OpError
	switch {
	case errors.As(err, &unknown):
		return "the certificate of the BMC is of an unknown authority: set redfish_verify_ca to a file with the authority, or to false to trust any certificate"
	case isCertificate(err):
		return fmt.Sprintf("the certificate of the BMC is not valid (%v): renew it, or set redfish_verify_ca to false to trust any certificate", rootOf(err))
	case errors.As(err, &answer) && refusesCredentials(err):
		return "the BMC refuses the user name or password (" + messages(answer) + "): check redfish_username and redfish_password"
	case errors.As(err, &login) && errors.As(err, &answer):
		return "the BMC grants no session: " + messages(answer)
	case errors.As(err, &answer):
		return messages(answer)
	case errors.As(err, &network) && network.Op == "dial":
		return fmt.Sprintf("the BMC cannot be reached (%v): check redfish_address, and that the engine reaches it over the network", network)
	case isTLSVersion(err):
		return fmt.Sprintf("the BMC and the engine agree on no TLS (%v): the engine speaks TLS 1.2 and later, update the firmware of the BMC or change the settings of its encryption", rootOf(err))
	case errors.Is(err, context.DeadlineExceeded):
		return "the BMC did not answer in time"
	}
	return err.Error()
}

// tlsDisagreements are the texts with which crypto/tls says that the two sides have no version or
// cipher suite in common: alerts of the other side (RFC 8446, section 6.2), or that the other side,
// which knows only older versions, has chosen one of those.
var tlsDisagreements = []string{
	"tls: handshake failure", "tls: protocol version not supported", "tls: insufficient security level",
	"tls: server selected unsupported protocol version",
}

// isTLSVersion reports whether engine and BMC have no TLS in common.
func isTLSVersion(err error) bool {
	return slices.ContainsFunc(tlsDisagreements, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// rootOf returns the innermost error of a TLS handshake.
func rootOf(err error) error {
	var invalid *tls.CertificateVerificationError
	if errors.As(err, &invalid) {
		return invalid.Err
	}
	return err
}

// maxMessages bounds how many messages of an answer are shown.
const maxMessages = 3

// messages returns what the BMC says in an error answer, with the status.
func messages(e *schemas.Error) string {
	var said []string
	for _, info := range e.ExtendedInfos {
		text := strings.TrimSpace(info.Message)
		if text == "" {
			text = info.MessageID
		}
		if text != "" && !slices.Contains(said, text) && len(said) < maxMessages {
			said = append(said, text)
		}
	}
	if len(said) == 0 {
		said = append(said, string(bytes.TrimSpace([]byte(e.Message))))
	}
	text := http.StatusText(e.HTTPReturnedStatusCode)
	return fmt.Sprintf("it answered %d %s: %s", e.HTTPReturnedStatusCode, text, strings.Join(said, " "))
}
