// Package login keeps drivers from sending credentials again and again to a BMC that
// refuses them, because BMCs lock accounts.
package login

import (
	"sync"
	"time"
)

// maxRefusals is how often credentials are tried that a BMC refuses.
const maxRefusals = 2

// Tries counts how often a BMC has refused the same credentials. It is safe for
// concurrent use.
type Tries struct {
	clock func() time.Time
	pause time.Duration
	keys  string

	mu       sync.Mutex
	refusals int
	last     time.Time // of the refusals
}

// NewTries returns a count of none. The pause is the time between the two tries, and
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
	if t.refusals > 0 && now.Before(t.last.Add(t.pause)) {
		return
	}
	t.refusals++
	t.last = now
}

// Accept forgets all refusals: the BMC has accepted the credentials.
func (t *Tries) Accept() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals = 0
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
	case t.refusals >= maxRefusals:
		return &RefusedError{Final: true, keys: t.keys}
	case t.refusals > 0 && t.clock().Before(t.last.Add(t.pause)):
		return &RefusedError{keys: t.keys}
	}
	return nil
}

// RefusedError is the error of a call that was not made because the BMC has refused the
// credentials.
type RefusedError struct {
	// Final says that the credentials are never sent again; they must be changed.
	Final bool
	keys  string
}

// Error says what happens next.
func (e *RefusedError) Error() string {
	if e.Final {
		return "the BMC has refused the user name and password twice, so they are not sent again before they change: it could lock the account. Correct " + e.keys + "."
	}
	return "the BMC has refused the user name and password; they are tried once more after a pause, in case it restarts"
}
