// Package provisioner defines what the operator needs of an engine: nodes, their
// inventories, and requests that change them.
//
// It is implemented by package ironic, for an engine with the Bare Metal API
// (Ingot's or upstream Ironic), and by package demo, without an engine. A controller
// depends on the smallest interface that is sufficient for it.
//
// Every method of every implementation has these properties:
//   - it is safe for concurrent use and obeys its context;
//   - it can be repeated: a request for the present state is no error;
//   - it retries nothing, but errors.Is distinguishes its errors.
package provisioner

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// Errors, to be tested with errors.Is. Any other error means that the engine
// answered and refused.
var (
	// ErrNotFound means that the engine does not have the node.
	ErrNotFound = errors.New("node not found")
	// ErrNoInventory means that the node is known and was never inspected.
	ErrNoInventory = errors.New("node has no inventory")
	// ErrBusy means that the engine is working on the node; a retry after
	// some seconds can succeed.
	ErrBusy = errors.New("node is busy")
	// ErrNotOwned means that the node carries the mark of another host, or none.
	ErrNotOwned = errors.New("node does not belong to this host")
	// ErrUnreachable means that the engine did not answer, or was unavailable.
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

// Lifecycle marks nodes, makes them available and deletes them from the engine.
// Every method returns when the engine accepted the work, not when it is done.
type Lifecycle interface {
	// Claim writes the mark into the node and returns the node afterwards. The
	// API has no precondition for it: it replaces any other mark, so the caller reads
	// the node before, and looks for its mark again before it uses the node.
	Claim(ctx context.Context, id string, mark Mark) (Node, error)
	// Manage asks the engine to make an enrolled node manageable.
	Manage(ctx context.Context, id string) error
	// Provide asks the engine to make a manageable node available.
	Provide(ctx context.Context, id string, opts ProvideOptions) error
	// Delete deletes the node and its inventory from the engine, whatever
	// state it is in. Deleting an unknown node is no error. It may take several
	// requests and reads the node between them; it ends with ErrNotOwned when the
	// node has lost the mark. The first request relies on the caller's reading.
	Delete(ctx context.Context, id string, mark Mark) error
}

// Engine is everything that an implementation provides.
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
	// Limit, if not zero, is the number of nodes per request.
	Limit int
}

// ProvideOptions say how to make a node available.
type ProvideOptions struct {
	// SkipCleaning does not clean the node's disks.
	SkipCleaning bool
}

// Identity identifies a node. Empty fields are ignored.
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

// Mark says which host a node belongs to. It is kept in the node's extra data, under
// v1alpha1.NodeMarkKey: engines and their other clients leave that alone, and nobody can
// write it who only has rights in Kubernetes. The mark ends with the node, or when a
// person removes it.
type Mark string

// MarkOf is the mark of a host: the UID of the cluster's namespace kube-system, the
// host's namespace and its name. The host's own UID is not in it, because a host that
// is restored from a backup has another one.
func MarkOf(cluster, namespace, name string) Mark {
	return Mark(cluster + "/" + namespace + "/" + name)
}

// Node is a snapshot of one of the engine's nodes.
type Node struct {
	// ID is the UUID. Name is empty for nodes without a name.
	ID, Name string
	// Mark is empty for nodes that no host has claimed. A value that no operator
	// wrote is kept as it is: it belongs to somebody.
	Mark Mark
	// Driver is the hardware type.
	Driver string
	// State is the provision state.
	State node.State
	// LastError is the engine's message about the last failure.
	LastError string
	// Maintenance is true while a user has put the node into maintenance;
	// MaintenanceReason is the reason that the user gave.
	Maintenance       bool
	MaintenanceReason string
	// InstanceID and Owner are set on nodes in use.
	InstanceID, Owner string
	// Busy is true while the engine works on the node.
	Busy bool
	// AutoDiscovered reports whether the engine enrolled the node by itself. It
	// is nil if only the inventory can show that.
	AutoDiscovered *bool
	// InspectedAt is when inspection ended last, zero when it never did or
	// when the engine does not report it.
	InspectedAt time.Time
	// CreatedAt and UpdatedAt are the engine's times.
	CreatedAt, UpdatedAt time.Time
	// Agent is the node's ramdisk.
	Agent Agent
}

// Agent is what the engine knows about a node's ramdisk.
type Agent struct {
	// URL is the address of the agent, empty if it never called.
	URL string
	// LastHeartbeat is the time of the agent's last heartbeat, zero if there was none.
	LastHeartbeat time.Time
}

// Alive reports whether the agent's last heartbeat is at most window before now. A
// ramdisk that is alive can be given work without booting the machine.
func (a Agent) Alive(now time.Time, window time.Duration) bool {
	return !a.LastHeartbeat.IsZero() && now.Sub(a.LastHeartbeat) <= window
}

// freeStates are the provision states in which a node may be unused.
var freeStates = map[node.State]bool{
	node.Enroll: true, node.Manageable: true, node.Available: true,
	node.Inspecting: true, node.InspectWait: true,
}

// BelongsTo describes the user of a node in a few words, or returns "" if nobody
// uses it. The operator ignores nodes in use.
func (n Node) BelongsTo() string {
	switch {
	case n.Mark != "":
		return "extra." + v1alpha1.NodeMarkKey + " names another host"
	case n.Name != "":
		return "it has the name " + n.Name
	case n.InstanceID != "":
		return "it has the instance " + n.InstanceID
	case n.Owner != "":
		return "its owner is " + n.Owner
	case !freeStates[n.State]:
		return "it is in state " + string(n.State)
	default:
		return ""
	}
}
