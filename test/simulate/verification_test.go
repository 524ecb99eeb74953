package simulate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// A fake machine checks itself when its node is verified: it begins a check, which has a handle and
// takes a while, and confirms it at its end. These are the phases after the first turn.
const (
	checking   = "checking"
	confirming = "confirming"
)

// verification is the line of a turn of a verification in the log. It changes nothing.
const verification fake.Kind = "verification"

// verifyProgress is what the database has of a verification: the phase and the handle of its last
// turn.
type verifyProgress struct{ phase, handle string }

// verifyTurn is a turn of a verification whose outcome the process has not stored yet.
type verifyTurn struct {
	m     *machine
	epoch int64
	out   *driver.Outcome // nil before the machine has answered
}

var _ driver.Verifier = connection{}

// Verify makes a turn of the verification of a node.
func (c connection) Verify(ctx context.Context, _ *node.Node, turn driver.Turn) (driver.Outcome, error) {
	c.m.checkTurn(turn)
	made := &verifyTurn{m: c.m, epoch: turn.Origin.Epoch}
	c.r.noteTurn(turn.Origin.Request, made)
	if err := c.read(ctx, string(verification)); err != nil {
		return driver.Outcome{}, err
	}
	out := c.m.verify(turn)
	made.out = &out
	return out, nil
}

// verify is what the machine does in a turn. It may have several checks for one request: nobody knows
// of those whose handle was never stored.
func (m *machine) verify(turn driver.Turn) driver.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	takes, handle := m.w.taskDuration(turn.Origin.Request), turn.Handle
	switch {
	case turn.Phase == confirming, takes == 0:
		return driver.Outcome{}
	case turn.Phase == "":
		handle = fmt.Sprintf("check-%d", len(m.checks)+1)
		m.checks[handle] = time.Now().Add(takes)
	case !time.Now().Before(m.checks[handle]):
		return driver.Outcome{Again: driver.NextTurn, Phase: confirming, Handle: handle}
	}
	return driver.Outcome{Again: time.Until(m.checks[handle]), Phase: checking, Handle: handle}
}

// checkTurn checks that the turn continues the stored turns before it, and writes the turn into the
// log. A process that has lost the node, and does not know that yet, may be behind.
func (m *machine) checkTurn(turn driver.Turn) {
	current := m.w.epoch(m.uuid) == turn.Origin.Epoch
	m.mu.Lock()
	defer m.mu.Unlock()
	e := effect{
		at: time.Now(), kind: verification, origin: turn.Origin,
		detail: fmt.Sprintf("attempt %q, phase %q, handle %q", turn.Attempt, turn.Phase, turn.Handle),
	}
	m.log = append(m.log, e)
	m.w.sched.note("%s: %s", m.name, e)
	before, begun := m.verifyProgress[turn.Origin.Request]
	switch {
	case !begun || !current:
	case turn.Attempt == driver.Fresh:
		m.w.violated("%s: %s is said to be the first turn, and it is not", m.name, e)
	case before != verifyProgress{turn.Phase, turn.Handle}:
		m.w.violated("%s: %s comes after a turn that has left phase %q and handle %q", m.name, e, before.phase, before.handle)
	}
}

// noteTurn notes a turn that the process makes for a request.
func (r *replica) noteTurn(request string, made *verifyTurn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifying[request] = made
}

// unstoredTurn returns the turn of a verification whose outcome a commit of work stores, with its
// request; nil for none.
func (r *replica) unstoredTurn(info runner.Info) (made *verifyTurn, request string) {
	row, _, _ := strings.Cut(info.Request, " ")
	r.mu.Lock()
	defer r.mu.Unlock()
	for request, made := range r.verifying {
		if info.Work != "" && strings.HasPrefix(request, row+" ") {
			return made, request
		}
	}
	return nil, ""
}

// checkVerifier checks, at the begin of a commit, that the node still has the lease under which a
// verification has made the turn whose outcome is stored. It returns the function that notes that
// the commit was made.
func (r *replica) checkVerifier(tx *store.Tx, info runner.Info) (noteCommitted func(), err error) {
	made, request := r.unstoredTurn(info)
	if made == nil {
		return func() {}, nil
	}
	leases, err := tx.LeasesOf([]string{info.Node})
	lease := leases[info.Node]
	return func() {
		if lease.Epoch != made.epoch {
			r.w.violated("%s: %s stores what it has found for %s under epoch %d, while the lease is %+v", made.m.name, r.name, request, made.epoch, lease)
		}
		made.noteStored(request, info.Request)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.verifying, request)
	}, err
}

// noteStored notes that the outcome of a turn is in the database. Once another operation is under
// way, the verification has ended.
func (t *verifyTurn) noteStored(request, operation string) {
	if operation != request {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	known := t.m.verifyProgress[request]
	if t.out != nil {
		known = verifyProgress{t.out.Phase, t.out.Handle}
	}
	t.m.verifyProgress[request] = known
}
