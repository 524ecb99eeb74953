package runner

import "time"

// Outcome is how an attempt at work ended.
type Outcome string

// Outcomes of work.
const (
	Done      Outcome = "done"
	Failed    Outcome = "failed"    // for good; the node's last_error says why
	Postponed Outcome = "postponed" // will be tried again
	Waiting   Outcome = "waiting"   // for time to pass or an agent to call; not a failure
	Lost      Outcome = "lost"      // another process took the node over
	Dropped   Outcome = "dropped"   // the node was deleted
	Left      Outcome = "left"      // to a newer version; only that version knows the operation
	Stopped   Outcome = "stopped"   // by the end of the process; resumed by the next
)

// noObserver is the observer of a runner that has none.
type noObserver struct{}

func (noObserver) WorkEnded(string, Outcome, time.Duration) {}
func (noObserver) LeaseWaited(time.Duration, bool)          {}
