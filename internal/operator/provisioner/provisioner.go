// Package provisioner is the operator's view of an engine: which machines it
// knows, what it found out about them, and how to bring one to another state.
//
// Implementations are in baremetal (an engine that speaks the Bare Metal API,
// Ingot's or upstream Ironic) and demo (no engine at all). Controllers depend
// on the smallest of the interfaces here that does; each ability of an engine
// that later parts of the operator need gets an interface of its own.
//
// What holds for every method of every implementation:
//   - it is safe for concurrent use and obeys its context;
//   - it can be repeated: asking for what is so already is no error;
//   - it retries nothing, but its error can be told apart with errors.Is.
package provisioner

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Errors, to be tested with errors.Is. Any other error means that the engine
// answered and refused.
var (
	// ErrNotFound means that the engine does not know the node.
	ErrNotFound = errors.New("node not found")
	// ErrNoInventory means that the node is known and was never inspected.
	ErrNoInventory = errors.New("node has no inventory")
	// ErrBusy means that the engine is at work on the node; asking again in
	// some seconds helps.
	ErrBusy = errors.New("node is busy")
	// ErrUnreachable means that the engine gave no answer, or could not work.
	ErrUnreachable = errors.New("engine is unreachable")
)

// Reader reads from an engine.
type Reader interface {
	// Nodes lists nodes. See ListOptions for the order.
	Nodes(ctx context.Context, opts ListOptions) ([]Node, error)
	// Node reads one node, or returns ErrNotFound.
	Node(ctx context.Context, id string) (Node, error)
	// Find returns the node with the identity's ID, else the one with its
	// name, or ErrNotFound. It does not search for MAC addresses.
	Find(ctx context.Context, identity Identity) (Node, error)
	// MACs returns the MAC addresses of the node's ports in lower case.
	MACs(ctx context.Context, id string) ([]string, error)
	// Inventory reads what inspection found, or returns ErrNoInventory. For an
	// unknown node it may return that or ErrNotFound.
	Inventory(ctx context.Context, id string) (*Inventory, error)
}

// Lifecycle brings nodes into the pool of available ones and out of the engine.
// Every method returns when the engine accepted the work, not when it is done.
type Lifecycle interface {
	// Manage asks the engine to take the node under control.
	Manage(ctx context.Context, id string) error
	// Provide asks the engine to make a manageable node available.
	Provide(ctx context.Context, id string, opts ProvideOptions) error
	// Delete makes the engine forget the node and its inventory, whatever
	// state it is in. Deleting an unknown node is no error.
	Delete(ctx context.Context, id string) error
}

// Engine is all that an implementation offers.
type Engine interface {
	Reader
	Lifecycle
}

// ListOptions select nodes for a list.
type ListOptions struct {
	// ChangedSince, if not zero, asks only for nodes that changed at that time
	// or later. The list is then ordered by change, newest first, and nodes
	// that never changed since their creation may be missing.
	ChangedSince time.Time
	// Limit, if not zero, is how many nodes to ask the engine for at a time.
	Limit int
}

// ProvideOptions say how to make a node available.
type ProvideOptions struct {
	// SkipCleaning leaves the node's disks as they are.
	SkipCleaning bool
}

// Identity is how a node can be recognised. Empty parts do not take part.
type Identity struct {
	// ID is the node's UUID.
	ID string
	// Name is the node's name, "<namespace>~<host>" for nodes that were
	// registered for a host.
	Name string
	// MAC is a MAC address of the machine.
	MAC string
}

// NodeName is the name of the engine's node for a host.
func NodeName(namespace, name string) string { return namespace + "~" + name }

// Node is a snapshot of one of the engine's nodes.
type Node struct {
	// ID is the UUID. Name is empty for nodes that nobody named.
	ID, Name string
	// Driver is the hardware type.
	Driver string
	// State is the provision state.
	State node.State
	// LastError is the engine's sentence about what failed last.
	LastError string
	// Maintenance is true while a person has taken the node out of use;
	// MaintenanceReason is that person's word.
	Maintenance       bool
	MaintenanceReason string
	// InstanceID and Owner are set on nodes that somebody uses.
	InstanceID, Owner string
	// Busy is true while the engine works on the node.
	Busy bool
	// AutoDiscovered tells whether the engine enrolled the node by itself. It
	// is nil when only the inventory can tell.
	AutoDiscovered *bool
	// InspectedAt is when inspection ended last, zero when it never did or
	// when the engine does not say.
	InspectedAt time.Time
	// CreatedAt and UpdatedAt are the engine's times.
	CreatedAt, UpdatedAt time.Time
	// Agent is the node's ramdisk.
	Agent Agent
}

// Agent is what the engine knows of a node's ramdisk.
type Agent struct {
	// URL is where the agent listens, empty when it never called.
	URL string
	// LastHeartbeat is when the agent was last heard of, zero when never.
	LastHeartbeat time.Time
}

// Alive reports whether the agent was heard of within window before now. A
// ramdisk that is alive can be given work without booting the machine.
func (a Agent) Alive(now time.Time, window time.Duration) bool {
	return !a.LastHeartbeat.IsZero() && now.Sub(a.LastHeartbeat) <= window
}

// freeStates are the provision states in which a node may belong to nobody.
var freeStates = map[node.State]bool{
	node.Enroll: true, node.Manageable: true, node.Available: true,
	node.Inspecting: true, node.InspectWait: true,
}

// BelongsTo says who uses a node, in a few words, or returns "" when nobody
// does. The operator leaves alone what belongs to somebody.
func (n Node) BelongsTo() string {
	switch {
	case n.Name != "":
		return "it has the name " + n.Name
	case n.InstanceID != "":
		return "it carries the instance " + n.InstanceID
	case n.Owner != "":
		return "its owner is " + n.Owner
	case !freeStates[n.State]:
		return "it is in state " + string(n.State)
	default:
		return ""
	}
}
