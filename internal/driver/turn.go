package driver

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Turn is one call of an operation that may take many. What takes time is never
// waited for inside a call: the driver says when it wants its next turn, the
// caller stores that, and any conductor may make the turn.
type Turn struct {
	// First is true until a call of the operation may have had an effect. A later
	// turn finds out what became of the effect before it repeats it: the process
	// of the turn before may have died.
	First   bool
	Elapsed time.Duration // since the first turn
	Phase   string        // Outcome.Phase of the turn before
	// Called is true when the agent has sent a heartbeat since the turn before.
	Called bool
}

// Outcome is how a turn ended. The zero value means that the operation is done.
type Outcome struct {
	// Again, when above 0, asks for another turn after this long; the node stays
	// under work meanwhile.
	Again time.Duration
	// Park, when above 0, asks for another turn after this long; the node goes
	// into its waiting state, where it may be aborted.
	Park time.Duration
	// Callback parks the node until its agent calls back.
	Callback bool
	Phase    string // handed to the next turn
	// Apply writes what the machine has become into the node; nil changes
	// nothing. The caller runs it in the commit that records the turn; it may run
	// again on a fresh copy.
	Apply func(*node.Node)
}

// Done reports whether the operation needs no further turn.
func (o Outcome) Done() bool { return o.Again <= 0 && o.Park <= 0 && !o.Callback }
