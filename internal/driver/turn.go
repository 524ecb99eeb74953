package driver

import (
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Attempt says what is known about the earlier calls of an operation.
type Attempt string

// Attempts.
const (
	// Fresh: the operation has made no call yet.
	Fresh Attempt = ""
	// Continued: the last turn succeeded and asked for this one.
	Continued Attempt = "continued"
	// Refused: the machine refused the last call and did nothing, see
	// node.DriverError, and no earlier call has an unknown outcome.
	Refused Attempt = "refused"
	// Unknown: a call may have had its effect, because its process died, its answer was lost, or
	// what the engine stored of it was lost since. The driver must find out before it repeats the
	// call. When it cannot find out, and repeating could do harm, it fails with OutcomeUnknown. A
	// refusal of a later call does not end the doubt.
	Unknown Attempt = "unknown"
)

// Origin says who makes a call, for machines that record that.
type Origin struct {
	Conductor string // hostname
	Epoch     int64  // of the lease under which the call is made
	// Request identifies one operation of one row of work: it is the same for all
	// attempts at it.
	Request string
}

// Turn is one call of an operation that may take several. A driver never waits inside
// a call for something that takes long: it asks for another turn, the caller stores
// that, and any conductor may make the next turn.
type Turn struct {
	Attempt Attempt
	Origin  Origin
	Elapsed time.Duration // since the first turn, without the waits of Outcome.Waits
	// Phase and Handle are those of the last stored outcome.
	Phase  string
	Handle string
	// Heard is true when the agent has sent a heartbeat since the last turn.
	Heard bool
}

// Outcome is how a turn ended. The zero value means that the operation is done.
type Outcome struct {
	// Again, when above 0, asks for another turn after this long; the node stays
	// under work meanwhile.
	Again time.Duration
	// Park, when above 0, asks for another turn after this long. The node goes into its waiting
	// state, where it may be aborted. It keeps its state where that has no waiting state. It also
	// keeps it while the engine puts the machine in order after failed work, because a client
	// could abort that in a waiting state.
	Park time.Duration
	// Callback parks the node until its agent sends a heartbeat. With Park, the next
	// turn follows whichever comes first.
	Callback bool
	// Waits says that the operation waits for something else than what it was asked for. The time
	// until the next turn then does not count in the operation's Elapsed.
	Waits bool
	// Phase is how far the operation has come. Handle is the machine's identifier of
	// the task that it works on, such as the URI of a Redfish task. Both are stored
	// before the next turn, which gets them.
	Phase  string
	Handle string
	// Apply records the change of the machine in the node; nil changes nothing. The
	// caller runs it in the commit that stores the outcome, possibly more than once,
	// each time on a fresh copy.
	Apply func(*node.Node)
	// Note is a sentence for the node's history, stored with the outcome; empty for none.
	Note string
}

// NextTurn is the Outcome.Again for a next turn at once, as soon as the caller has stored the
// outcome.
const NextTurn = time.Millisecond

// waitSuffix ends the phases in which an operation waits and has not changed the machine yet.
const waitSuffix = " waits"

// WaitPhase returns the phase in which an operation waits before it does what belongs to a phase.
func WaitPhase(phase string) string { return phase + waitSuffix }

// IsWaitPhase reports whether an operation in a phase waits and has not changed the machine yet.
func IsWaitPhase(phase string) bool { return strings.HasSuffix(phase, waitSuffix) }

// longestPoll bounds PollPause.
const longestPoll = 5 * time.Second

// PollPause returns how long to wait before a machine is read again that has worked on a
// request for elapsed: a quarter of that, at least shortest and at most 5 seconds.
func PollPause(elapsed, shortest time.Duration) time.Duration {
	return min(max(elapsed/4, shortest), longestPoll)
}

// Done reports whether the operation needs no further turn.
func (o Outcome) Done() bool { return o.Again <= 0 && o.Park <= 0 && !o.Callback }

// OutcomeUnknown is the error of an operation that must not be repeated although it is
// unknown whether it took effect.
func OutcomeUnknown(op string) error {
	return &node.DriverError{Op: op, Reason: "outcome unknown: the engine stopped, lost its connection or got an older database back while or after this was under way, and the machine cannot tell what became of it. " +
		"Check the machine before you request it again."}
}
