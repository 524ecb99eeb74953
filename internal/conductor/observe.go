package conductor

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Observer hears what a conductor does, for figures. Its methods are called from
// many goroutines and must not wait.
type Observer interface {
	// WorkEnded is called when one attempt at a piece of work ends. The kind is
	// the verb's or the event's work, such as "verify" or "inspect".
	WorkEnded(kind string, outcome WorkOutcome, took time.Duration)
	// LeaseWaited is called when a request found its node under work and waited.
	// It got its turn, or gave up and was refused.
	LeaseWaited(took time.Duration, gotTurn bool)
	// PostEnded is called when inspection data that a machine posted was answered.
	PostEnded(outcome PostOutcome)
}

// WorkOutcome is how an attempt at work ended.
type WorkOutcome string

// Outcomes of work.
const (
	WorkDone      WorkOutcome = "done"
	WorkFailed    WorkOutcome = "failed"    // for good; the node's last_error says why
	WorkPostponed WorkOutcome = "postponed" // will be tried again
	WorkWaiting   WorkOutcome = "waiting"   // for time to pass or an agent to call; not a failure
	WorkLost      WorkOutcome = "lost"      // another conductor took the node over
	WorkDropped   WorkOutcome = "dropped"   // the node was deleted
	WorkStopped   WorkOutcome = "stopped"   // by the end of the process; resumed by the next
)

// PostOutcome is what became of inspection data that a machine posted.
type PostOutcome string

// Outcomes of posts.
const (
	PostEnrolled PostOutcome = "enrolled" // an unknown machine became a node
	PostAccepted PostOutcome = "accepted" // a node waited for it
	PostRefused  PostOutcome = "refused"  // no node, or not one that waits; the log says why
	PostInvalid  PostOutcome = "invalid"  // not an inventory
	PostBusy     PostOutcome = "busy"     // over a limit of discovery, or its node is under work: the machine tries again
	PostError    PostOutcome = "error"    // the engine's own fault
)

// postOutcome reads the outcome off what the machine is answered.
func postOutcome(enrolled bool, err error) PostOutcome {
	var invalid *node.ValidationError
	switch {
	case err == nil && enrolled:
		return PostEnrolled
	case err == nil:
		return PostAccepted
	case errors.Is(err, node.ErrNotFound):
		return PostRefused
	case errors.Is(err, node.ErrBusy), isLocked(err):
		return PostBusy
	case errors.As(err, &invalid):
		return PostInvalid
	}
	return PostError
}

// silent is the observer of a conductor that has none.
type silent struct{}

func (silent) WorkEnded(string, WorkOutcome, time.Duration) {}
func (silent) LeaseWaited(time.Duration, bool)              {}
func (silent) PostEnded(PostOutcome)                        {}

// end notes how a job ended, for the observer.
func (j job) end(outcome WorkOutcome) {
	if j.ended != nil {
		*j.ended = outcome
	}
}

// QueueLength is how many pieces of work wait for a worker of this process.
func (c *Conductor) QueueLength() int {
	waiting, _ := c.queue.load()
	return waiting
}

// NodeStates counts the nodes of the database by provision state.
func (c *Conductor) NodeStates(ctx context.Context) (map[node.State]int, error) {
	var counts map[node.State]int
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		counts, err = tx.CountNodesByState()
		return err
	})
	return counts, err
}
