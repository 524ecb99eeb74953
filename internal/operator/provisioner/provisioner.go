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
	// ErrConflict means that what the request asks for is taken: a name or a MAC address
	// belongs to another node, or the node is in a state that does not allow the
	// request. A retry does not help until somebody changes that.
	ErrConflict = errors.New("request conflicts with the engine's state")
	// ErrInvalid means that the engine refuses the values of the request.
	ErrInvalid = errors.New("engine refuses the request")
	// ErrUnsupported means that the engine, its API version or the node's driver
	// cannot do what was asked for.
	ErrUnsupported = errors.New("engine does not support the request")
	// ErrFailed means that the engine asked the machine, which refused or failed. The request may
	// have had its effect all the same.
	ErrFailed = errors.New("the machine refuses the request or fails at it")
	// ErrNotOwned means that the node carries the mark of another host, or none.
	ErrNotOwned = errors.New("node does not belong to this host")
	// ErrDenied means that the engine refuses the operator's credentials, or the node is
	// protected.
	ErrDenied = errors.New("engine denies access")
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
	// AllMACs returns the MAC addresses of all ports in lower case, by the ID of the
	// node. A node without ports is not in it.
	AllMACs(ctx context.Context) (map[string][]string, error)
	// Inventory reads what inspection found, or returns ErrNoInventory. For an
	// unknown node it may return that or ErrNotFound.
	Inventory(ctx context.Context, id string) (*Inventory, error)
	// Version is the API version at which the engine is used. What [Registrar.Update] writes
	// depends on it, so that a node may differ from its registration again when it has changed.
	// It may be some minutes old: asking for it often costs no requests.
	Version(ctx context.Context) (string, error)
}

// Lifecycle locks and marks nodes, makes them available and deletes them from the engine.
// Every method returns when the engine accepted the work, not when it is done.
type Lifecycle interface {
	// Lock makes the lock of the mark the instance of a node without one, and returns the node
	// afterwards. A node with another instance is ErrNotOwned, and stays as it is.
	Lock(ctx context.Context, id string, mark Mark) (Node, error)
	// Unlock removes that lock, which the node has.
	Unlock(ctx context.Context, id string, mark Mark) error
	// Claim writes the mark into the node and returns the node afterwards. The
	// API has no precondition for it: it replaces any other mark. So the caller has locked the
	// node before, and looked for a mark after that, or has to know that nobody else can lock it.
	Claim(ctx context.Context, id string, mark Mark, opts ClaimOptions) (Node, error)
	// Release writes into the node that its host moves, which [Node.Released] shows. A mark
	// other than the given one is ErrNotOwned.
	Release(ctx context.Context, id string, mark Mark, released string) error
	// TakeReleased ends that and writes the mark in one request, and returns the node
	// afterwards. When somebody else did so before, the request fails with ErrNotOwned and
	// changes nothing.
	TakeReleased(ctx context.Context, id string, mark Mark) (Node, error)
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
	Registrar
	Identifier
	Worker
	PowerController
	FirmwareReader
	MediaController
	Subscriber
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

// ClaimOptions say how to mark a node.
type ClaimOptions struct {
	// Unlock removes the lock of the mark in the same request.
	Unlock bool
}

// ProvideOptions say how to make a node available.
type ProvideOptions struct {
	// SkipCleaning does not clean the node's disks.
	SkipCleaning bool
}
