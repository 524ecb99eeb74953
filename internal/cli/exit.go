package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Exit codes of the client commands. Scripts rely on them.
const (
	ExitOK          = 0   // done
	ExitError       = 1   // any other failure
	ExitUsage       = 2   // wrong flags or arguments; no request was sent
	ExitNotFound    = 3   // no such object
	ExitBusy        = 4   // work on the node is under way, or the engine is overloaded: trying again helps
	ExitUnreachable = 5   // the engine did not answer
	ExitStillGoing  = 6   // the time to wait is over, but the work continues
	ExitInterrupted = 130 // the user interrupted the command
)

// UsageError means that the command line itself is wrong.
type UsageError struct{ Err error }

// Error returns the text of the reason.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UsageError) Unwrap() error { return e.Err }

// SilentError carries an exit code for failures that were already reported on their own lines.
type SilentError struct{ Code int }

// Error is not meant to be printed.
func (e *SilentError) Error() string { return "failures are reported above" }

// AdvisedError is an error with more specific advice than the hint for its kind.
type AdvisedError struct {
	Err    error
	Advice string // a full sentence, or empty for none
	Code   int    // the exit code, 0 for that of Err
}

// Error returns the error's text without the advice.
func (e *AdvisedError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *AdvisedError) Unwrap() error { return e.Err }

// exitCodes is searched from the top; the first kind that matches wins.
var exitCodes = []struct {
	kind error
	code int
}{
	{ironic.ErrNotFound, ExitNotFound},
	{ironic.ErrConflict, ExitBusy},
	{ironic.ErrOverloaded, ExitBusy},
	{ironic.ErrUnreachable, ExitUnreachable},
	{context.Canceled, ExitInterrupted},
}

// ExitCode returns the exit code of the process for err.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	var silent *SilentError
	if errors.As(err, &silent) {
		return silent.Code
	}
	var advised *AdvisedError
	if errors.As(err, &advised) && advised.Code != 0 {
		return advised.Code
	}
	for _, row := range exitCodes {
		if errors.Is(err, row.kind) {
			return row.code
		}
	}
	return ExitError
}

// Report writes err to w as one line for people and returns the exit code.
// A nil error writes nothing.
func Report(w io.Writer, err error) int {
	var silent *SilentError
	if err != nil && !errors.As(err, &silent) {
		fmt.Fprintln(w, Sentence(err))
	}
	return ExitCode(err)
}

// hints say what to do about each kind of failure. The first match wins.
var hints = []struct {
	kind error
	// also limits the hint to some errors of the kind; nil for all of them.
	also func(*ironic.Error) bool
	hint string
}{
	{ironic.ErrNotFound, nil, "See what the engine has with: ingot node list."},
	{ironic.ErrConflict, notSuspended, "Work on the node may be under way: try again, or see ingot explain."},
	{ironic.ErrOverloaded, nil, "Try again in a moment."},
	{ironic.ErrUnreachable, untrusted, "Name the file of the authority that signed it with --os-cacert or OS_CACERT."},
	{ironic.ErrUnreachable, noTLS, ""},
	{ironic.ErrUnreachable, nil, "Start an engine with ingot up or ingot engine, or name another one with --os-endpoint or OS_ENDPOINT."},
	{ironic.ErrDenied, unauthenticated, "Put the name and the password of a user of the engine into OS_USERNAME and OS_PASSWORD."},
	{ironic.ErrServer, nil, "The engine's log has more."},
}

// notSuspended leaves out refusals that say themselves what to do.
func notSuspended(e *ironic.Error) bool { return !strings.Contains(e.Message, "suspended") }

func unauthenticated(e *ironic.Error) bool { return e.Status == http.StatusUnauthorized }

func noTLS(e *ironic.Error) bool { return errors.Is(e.Cause, http.ErrSchemeMismatch) }

func untrusted(e *ironic.Error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(e.Cause, &certificate)
}

// Sentence says in one line what failed, on which object, why, and what to do.
func Sentence(err error) string {
	var failed *ironic.Error
	var usage *UsageError
	var advised *AdvisedError
	errors.As(err, &advised)
	switch {
	case errors.Is(err, context.Canceled):
		return withAdvice("Interrupted.", advised)
	case errors.As(err, &usage):
		return fullStop(err.Error()) + " See --help."
	case !errors.As(err, &failed):
		return withAdvice(fullStop(err.Error()), advised)
	}
	reason := failed.Message
	if reason == "" || errors.Is(err, ironic.ErrUnreachable) {
		reason = strings.TrimSuffix(failed.Kind.Error()+": "+failed.Message, ": ")
	}
	text := fullStop("cannot " + failed.Op + ": " + reason)
	if advised != nil {
		return withAdvice(text, advised)
	}
	return strings.TrimSpace(text + " " + hintFor(err))
}

// hintFor returns what to do about a failed call, empty for nothing.
func hintFor(err error) string {
	var failed *ironic.Error
	if !errors.As(err, &failed) {
		return ""
	}
	for _, row := range hints {
		if errors.Is(err, row.kind) && (row.also == nil || row.also(failed)) {
			return row.hint
		}
	}
	return ""
}

func withAdvice(sentence string, advised *AdvisedError) string {
	if advised == nil {
		return sentence
	}
	return strings.TrimSpace(sentence + " " + printable(advised.Advice))
}

// joinLines joins the lines of a text, because joined errors have one line each.
func joinLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteString(" ")
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// fullStop makes a sentence of an error text: it begins with a capital, ends with a full stop
// unless it is a question, and has no control characters. The first word stays as it is if people
// type it, as they do with commands and configuration keys.
func fullStop(text string) string {
	text = printable(strings.TrimRight(joinLines(text), ". "))
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	word, _, _ := strings.Cut(text, " ")
	notALetter := func(r rune) bool { return !unicode.IsLetter(r) }
	if word == "ingot" || strings.ContainsFunc(strings.TrimRight(word, ":,.?"), notALetter) {
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
