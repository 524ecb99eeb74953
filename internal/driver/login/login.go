// Package login keeps drivers from sending credentials again and again to a BMC that
// refuses them, because BMCs lock accounts.
package login

import (
	"sync"
	"time"
)

// A BMC may refuse right credentials for as long as it starts, for example with new firmware. While
// it may start, the pause between tries grows by the factor growth with each refusal, up to
// startingPause.
//
// Otherwise, the pause is at least forgetPause after the second refusal, and grows up to
// longestPause. Wrong credentials then lock no account on a BMC that forgets failures before the
// next try, which many do after a quarter of an hour.
const (
	growth        = 2
	startsWithin  = 30 * time.Minute
	startingPause = 5 * time.Minute
	forgetPause   = 20 * time.Minute
	longestPause  = time.Hour
)

// Tries counts how often a BMC has refused the same credentials. It is safe for
// concurrent use.
type Tries struct {
	clock func() time.Time
	pause time.Duration
	keys  string

	mu       sync.Mutex
	accepted bool      // ever
	refusals int       // since then
	starts   time.Time // until when the BMC may start
	last     time.Time
	wait     time.Duration // after the last refusal
}

// NewTries returns a Tries without refusals. The pause is the time between the first two tries.
// keys names what a person corrects, such as "redfish_username and redfish_password".
func NewTries(clock func() time.Time, pause time.Duration, keys string) *Tries {
	return &Tries{clock: clock, pause: pause, keys: keys}
}

// Refuse counts a refusal. Refusals of calls at the same time count as one, because a BMC that
// restarts refuses them all.
func (t *Tries) Refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	switch {
	case t.refusals == 0:
		t.wait = t.pause
	case now.Before(t.last.Add(t.wait)):
		return
	case now.Before(t.starts):
		t.wait = max(t.pause, min(t.wait*growth, startingPause))
	default:
		t.wait = max(t.pause, forgetPause, min(t.wait*growth, longestPause))
	}
	t.refusals++
	t.last = now
}

// MayStart notes that the BMC may be starting, and refuse right credentials for that reason.
func (t *Tries) MayStart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts = t.clock().Add(startsWithin)
}

// Unanswered notes that the BMC did not answer. The BMC may be starting then, unless it has refused
// the credentials before.
func (t *Tries) Unanswered() {
	if !t.Refused() {
		t.MayStart()
	}
}

// Accept forgets all refusals: the BMC has accepted the credentials, so it has started.
func (t *Tries) Accept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accepted, t.refusals, t.starts = true, 0, time.Time{}
}

// Started notes that the BMC has started. From now on, a refusal is about the credentials.
func (t *Tries) Started() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts = time.Time{}
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
	if next := t.last.Add(t.wait); t.refusals > 0 && t.clock().Before(next) {
		return &RefusedError{Next: next, refusals: t.refusals, accepted: t.accepted, keys: t.keys}
	}
	return nil
}

// RefusedError is the error of a call that was not made because the BMC has refused the
// credentials.
type RefusedError struct {
	// Next is when the credentials may be sent again.
	Next     time.Time
	refusals int
	accepted bool // before
	keys     string
}

// Error says what happens next.
func (e *RefusedError) Error() string {
	switch {
	case e.accepted:
		return "the BMC refuses the user name and password that it has accepted before; they are tried again after pauses of up to an hour, in case it restarts. If the BMC has others now, correct " + e.keys + "."
	case e.refusals > 1:
		return "the BMC has refused the user name and password twice, so they are tried again only after pauses of up to an hour: it could lock the account. Correct " + e.keys + "."
	}
	return "the BMC has refused the user name and password; they are tried once more after a pause, in case it restarts"
}
