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
	// ErrConflict means that the request conflicts with something that exists: a name or a MAC
	// address belongs to another node, or the node is in a state that does not allow the request. A
	// retry does not help until somebody changes that.
	ErrConflict = errors.New("request conflicts with the engine's state")
	// ErrInvalid means that the engine refuses the values of the request.
	ErrInvalid = errors.New("engine refuses the request")
	// ErrUnsupported means that the engine, its API version or the node's driver cannot do what the
	// request asks for.
	ErrUnsupported = errors.New("engine does not support the request")
	// ErrFailed means that the engine asked the machine, which refused or failed. The request may
	// nevertheless have had its effect.
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
	// Find returns the node with the identity's ID or, without one, the node with its name. It
	// returns ErrNotFound if there is neither. It does not search for MAC addresses.
	Find(ctx context.Context, identity Identity) (Node, error)
	// MACs returns the MAC addresses of the node's ports in lower case.
	MACs(ctx context.Context, id string) ([]string, error)
	// AllMACs returns the MAC addresses of all ports in lower case, by ID of the node. Nodes
	// without ports are missing.
	AllMACs(ctx context.Context) (map[string][]string, error)
	// Inventory reads what inspection found, or returns ErrNoInventory. For an unknown node it may
	// return either that or ErrNotFound.
	Inventory(ctx context.Context, id string) (*Inventory, error)
	// Version returns the API version that is used with the engine. What [Registrar.Update] writes
	// depends on it, so a node may differ from its registration again after the version has
	// changed. The answer may be some minutes old, so frequent calls cost few requests.
	Version(ctx context.Context) (string, error)
}

// Lifecycle locks and marks nodes, makes them available and deletes them from the engine.
// Every method returns when the engine accepted the work, not when it is done.
type Lifecycle interface {
	// Lock makes the lock of the mark the instance of a node without an instance, and returns the
	// node afterwards. A node with another instance stays as it is: ErrNotOwned.
	Lock(ctx context.Context, id string, mark Mark) (Node, error)
	// Unlock removes the lock of the mark, which the node must have.
	Unlock(ctx context.Context, id string, mark Mark) error
	// Claim writes the mark into the node and returns the node afterwards. The API has no
	// precondition for it, so Claim replaces any other mark. The caller must have locked the node
	// and then looked for a mark, or must know that nobody else can lock the node.
	Claim(ctx context.Context, id string, mark Mark, opts ClaimOptions) (Node, error)
	// Release notes in the node that its host moves to another cluster; [Node.Released] shows that.
	// A node with another mark is ErrNotOwned.
	Release(ctx context.Context, id string, mark Mark, released string) error
	// TakeReleased ends the release and writes the mark in one request, and returns the node
	// afterwards. If somebody else has done so before, the request fails with ErrNotOwned and
	// changes nothing.
	TakeReleased(ctx context.Context, id string, mark Mark) (Node, error)
	// Manage asks the engine to make an enrolled node manageable.
	Manage(ctx context.Context, id string) error
	// Provide asks the engine to make a manageable node available.
	Provide(ctx context.Context, id string, opts ProvideOptions) error
	// Delete deletes the node and its inventory from the engine, whatever state the node is in.
	// Deleting an unknown node is no error. Delete may take several requests, and reads the node
	// between them. It ends with ErrNotOwned if the node has lost the mark. The first request
	// relies on what the caller has read.
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
	// ChangedSince, if not zero, asks only for nodes that changed at that time or later. The list
	// is then ordered by change, newest first. Nodes that have never changed since their creation
	// may be missing.
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
	// SkipCleaning leaves the node's disks as they are.
	SkipCleaning bool
}
