// Package login keeps drivers from sending credentials again and again to a BMC that
// refuses them, because BMCs lock accounts.
package login

import (
	"sync"
	"time"
)

// maxRefusals is how often credentials are tried that a BMC refuses and has never accepted.
const maxRefusals = 2

// A BMC may refuse credentials that it has accepted for as long as it starts, for example with new
// firmware. The pause between the tries of these grows by growth with each, up to startingPause while
// it may start, and then up to longestPause: a few in many minutes lock no account should they be
// wrong now.
const (
	growth        = 2
	startsWithin  = 30 * time.Minute
	startingPause = 5 * time.Minute
	longestPause  = time.Hour
)

// Tries counts how often a BMC has refused the same credentials. It is safe for
// concurrent use.
type Tries struct {
	clock func() time.Time
	pause time.Duration
	keys  string

	mu       sync.Mutex
	accepted bool // ever
	refusals int  // since then
	first    time.Time
	last     time.Time
	wait     time.Duration // after the last refusal
}

// NewTries returns a count of none. The pause is the time between the first two tries, and
// keys names what a person corrects, such as "redfish_username and redfish_password".
func NewTries(clock func() time.Time, pause time.Duration, keys string) *Tries {
	return &Tries{clock: clock, pause: pause, keys: keys}
}

// Refuse counts a refusal. Those of calls at the same time are one: a BMC that restarts
// refuses them all.
func (t *Tries) Refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	switch {
	case t.refusals == 0:
		t.first, t.wait = now, t.pause
	case now.Before(t.last.Add(t.wait)):
		return
	case now.Before(t.first.Add(startsWithin)):
		t.wait = max(t.pause, min(t.wait*growth, startingPause))
	default:
		t.wait = max(t.pause, min(t.wait*growth, longestPause))
	}
	t.refusals++
	t.last = now
}

// Accept forgets all refusals: the BMC has accepted the credentials.
func (t *Tries) Accept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accepted, t.refusals = true, 0
}

// Refused reports whether the BMC has refused the credentials since it accepted them.
func (t *Tries) Refused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refusals > 0
}

// Permitted returns a *RefusedError when the credentials must not be sent now.
func (t *Tries) Permitted() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.refusals >= maxRefusals && !t.accepted:
		return &RefusedError{Final: true, keys: t.keys}
	case t.refusals > 0 && t.clock().Before(t.last.Add(t.wait)):
		return &RefusedError{Next: t.last.Add(t.wait), accepted: t.accepted, keys: t.keys}
	}
	return nil
}

// RefusedError is the error of a call that was not made because the BMC has refused the
// credentials.
type RefusedError struct {
	// Final says that the credentials are never sent again; they must be changed.
	Final bool
	// Next is when they may be sent again, unless Final.
	Next     time.Time
	accepted bool // before
	keys     string
}

// Error says what happens next.
func (e *RefusedError) Error() string {
	switch {
	case e.Final:
		return "the BMC has refused the user name and password twice, so they are not sent again before they change: it could lock the account. Correct " + e.keys + "."
	case e.accepted:
		return "the BMC refuses the user name and password that it has accepted before; they are tried again after pauses of up to an hour, in case it restarts. If the BMC has others now, correct " + e.keys + "."
	}
	return "the BMC has refused the user name and password; they are tried once more after a pause, in case it restarts"
}
