package node

import (
	"fmt"
	"time"
)

// SuspendedOwner is the owner of leases that nobody has: they keep a node whose work
// is suspended from everybody. No conductor is called like that.
const SuspendedOwner = "(suspended)"

// Suspended reports whether the lease keeps suspended work.
func (l Lease) Suspended() bool { return l.Owner == SuspendedOwner }

// Suspension says that engines do not go on by themselves with the work that is
// stored, nor restore power states, until a person lets them. The zero value means
// that they do.
type Suspension struct {
	Reason SuspensionReason
	Detail string    // for people; goes on after "because", without a period
	Since  time.Time // zero when nothing is suspended
	Ended  time.Time // when the last one ended; zero before the first

	// Nodes is how many have suspended work, Differing of how many the machine was seen
	// in another power state. Both are counted only where that is said.
	Nodes, Differing int
}

// InForce reports whether something is suspended.
func (s Suspension) InForce() bool { return s.Reason != "" }

// SuspensionReason is why work is suspended.
type SuspensionReason string

// Reasons of suspensions.
const (
	// Restored: the database is a copy of an older state.
	Restored SuspensionReason = "restored"
	// MachinesDiffer: so many machines are not as stored that the record is in doubt.
	MachinesDiffer SuspensionReason = "machines differ"
)

// SuspendedNode is what waits for a person on one node.
type SuspendedNode struct {
	UUID           string
	Name           string
	ProvisionState State
	PowerState     PowerState // as stored
	Work           []string   // kinds of suspended work; empty for none
	Observed       PowerState // what the machine shows instead; empty when it was not seen to differ
	ObservedAt     time.Time
}

// SuspendedError refuses what would be in the way of suspended work. It is an
// ErrLocked that no wait outlasts.
type SuspendedError struct{ Node string }

func (e *SuspendedError) Error() string {
	return fmt.Sprintf("Node %s has work from before the database was restored, or from before many machines were found to differ, which is suspended: "+
		"let it go on with \"ingot suspension resume %s\", or give it up with \"ingot suspension drop %s\".", e.Node, e.Node, e.Node)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *SuspendedError) Is(target error) bool { return target == ErrLocked }

// Locked returns why a node with a lease in force is kept from others: a
// *LockedError, or a *SuspendedError.
func (n *Node) Locked() error {
	if n.Lease.Suspended() {
		return &SuspendedError{Node: n.UUID}
	}
	return &LockedError{Node: n.UUID, Owner: n.Lease.Owner}
}
