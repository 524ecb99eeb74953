package node

import (
	"fmt"
	"time"
)

// SuspendedHolder is the holder of the leases of suspended work. Such a lease belongs to no
// conductor; it keeps everybody away from the node. No conductor has this name.
const SuspendedHolder = "(suspended)"

// Suspended reports whether the lease belongs to suspended work.
func (l Lease) Suspended() bool { return l.Holder == SuspendedHolder }

// Suspension says that engines neither continue stored work by themselves nor restore power states,
// until a person lets them. The zero value means that nothing is suspended.
type Suspension struct {
	Reason SuspensionReason
	Detail string    // for people; continues a sentence after "because", without a period
	Since  time.Time // zero when nothing is suspended
	Ended  time.Time // when the last suspension ended; zero before the first

	// Nodes is the number of nodes with suspended work. Differing is the number of nodes whose
	// machine was seen in another power state. Both are set only by functions that say so.
	Nodes, Differing int
}

// InForce reports whether something is suspended.
func (s Suspension) InForce() bool { return s.Reason != "" }

// SuspensionReason is why work is suspended.
type SuspensionReason string

// Reasons of suspensions.
const (
	// Restored: the database is a copy of an older state, such as a restored backup.
	Restored SuspensionReason = "restored"
	// MachinesDiffer: so many machines differ from what is stored that the stored states are in
	// doubt.
	MachinesDiffer SuspensionReason = "machines differ"
)

// SuspendedNode is what waits on one node for a person's decision.
type SuspendedNode struct {
	UUID           string
	Name           string
	ProvisionState State
	PowerState     PowerState // as stored
	Work           []string   // kinds of suspended work; empty for none
	Observed       PowerState // what the machine shows instead; empty when no difference was seen
	ObservedAt     time.Time
}

// SuspendedError refuses a request that would interfere with suspended work. It is an ErrLocked,
// but waiting does not help.
type SuspendedError struct{ Node string }

func (e *SuspendedError) Error() string {
	return fmt.Sprintf("Node %s has work from before the database was restored, or from before many machines were found to differ, which is suspended: "+
		"let it go on with \"ingot suspension resume %s\", or give it up with \"ingot suspension drop %s\".", e.Node, e.Node, e.Node)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *SuspendedError) Is(target error) bool { return target == ErrLocked }

// Locked returns the error for others that want a node with a lease in force: a *LockedError, or a
// *SuspendedError.
func (n *Node) Locked() error {
	if n.Lease.Suspended() {
		return &SuspendedError{Node: n.UUID}
	}
	return &LockedError{Node: n.UUID, Holder: n.Lease.Holder}
}
