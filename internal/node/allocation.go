package node

import (
	"slices"
	"time"
)

// Allocation is a request for a suitable node: the engine chooses one and sets its
// instance_uuid to the UUID of the allocation.
type Allocation struct {
	ID             int64
	UUID           string
	NodeID         int64 // 0 while no node is chosen
	NodeUUID       string
	Name           string // unique when set
	ResourceClass  string
	CandidateNodes Words // UUIDs; empty means every node
	Traits         Words // the node must have all of them
	Owner          string
	State          AllocationState
	LastError      string
	Extra          Object
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// AllocationState is the state of an allocation, in wire spelling.
type AllocationState string

// States of an allocation.
const (
	Allocating       AllocationState = "allocating" // the engine searches for a node
	AllocationActive AllocationState = "active"     // NodeUUID has the node
	AllocationError  AllocationState = "error"      // LastError says why there is no node
)

// AllocationStates lists all states, for filters.
func AllocationStates() []AllocationState {
	return []AllocationState{Allocating, AllocationActive, AllocationError}
}

// Accepts reports whether n suits the allocation by resource class, traits, candidates
// and owner; its state does not matter. An owner may use nodes that it owns or leases.
func (a *Allocation) Accepts(n *Node) bool {
	return n.ResourceClass == a.ResourceClass &&
		n.Traits.HasAll(a.Traits) &&
		(a.CandidateNodes == "" || a.CandidateNodes.Has(n.UUID)) &&
		(a.Owner == "" || n.Owner == a.Owner || n.Lessee == a.Owner)
}

// Allocatable reports whether n is free for an allocation, apart from a lease.
func (n *Node) Allocatable() bool {
	return n.ProvisionState == Available && !n.Maintenance && n.InstanceUUID == "" && !n.Retired
}

// Choose returns the node for the allocation: the suitable node that has the allocation's name,
// else the first suitable node. Retry is true when other work has locked all suitable nodes, so
// that a later attempt may succeed. Otherwise reason says why there is no node.
func (a *Allocation) Choose(nodes []*Node, now time.Time) (chosen *Node, retry bool, reason string) {
	fitting := slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool { return !a.Accepts(n) || !n.Allocatable() })
	for _, n := range fitting {
		switch {
		case n.Lease.InForce(now):
		case a.Name != "" && n.Name == a.Name:
			return n, false, ""
		case chosen == nil:
			chosen = n
		}
	}
	switch {
	case chosen != nil:
		return chosen, false, ""
	case len(fitting) > 0:
		return nil, true, "All suitable nodes are locked by other work: try again when it is done."
	case a.Traits != "" || a.CandidateNodes != "" || a.Owner != "":
		return nil, false, "No available node of resource class " + a.ResourceClass +
			" has the requested traits, is a candidate and is open to the owner: free one, or change the request."
	}
	return nil, false, "No available node has the resource class " + a.ResourceClass + ": provide one, or change the request."
}
