package conductor

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Observer is told what a conductor does, for metrics. Its methods are called from
// many goroutines and must not wait.
type Observer interface {
	runner.Observer
	// PostEnded is called when inspection data that a machine posted was answered.
	PostEnded(outcome PostOutcome)
	// AddressesLeftOut is called with the number of MAC addresses of a discovered machine
	// that its node does not claim, because they are over the bound.
	AddressesLeftOut(count int)
}

// PostOutcome is the outcome of a post of inspection data.
type PostOutcome string

// Outcomes of posts.
const (
	PostEnrolled PostOutcome = "enrolled" // an unknown machine became a node
	PostAccepted PostOutcome = "accepted" // a node waited for it
	PostRefused  PostOutcome = "refused"  // no node matches, or it does not wait for data; the log says why
	PostInvalid  PostOutcome = "invalid"  // not an inventory
	PostBusy     PostOutcome = "busy"     // over a limit of discovery, or the node is under work: the machine tries again
	PostError    PostOutcome = "error"    // the engine's own fault
)

// postOutcome derives the outcome from the answer to the machine.
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

// noObserver is the observer of a conductor that has none.
type noObserver struct{}

func (noObserver) WorkEnded(string, runner.Outcome, time.Duration) {}
func (noObserver) LeaseWaited(time.Duration, bool)                 {}
func (noObserver) PostEnded(PostOutcome)                           {}
func (noObserver) AddressesLeftOut(int)                            {}

// QueueLength is the number of jobs that wait in this process.
func (c *Conductor) QueueLength() int { return c.runner.Load().Waiting }

// NodeStates counts the nodes of the database by provision state.
func (c *Conductor) NodeStates(ctx context.Context) (map[node.State]int, error) {
	var counts map[node.State]int
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		counts, err = tx.CountNodesByState()
		return err
	})
	return counts, err
}
