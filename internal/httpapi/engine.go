package httpapi

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Engine is everything the API asks of the engine. Errors decide the answer's
// status, see statusOf. Every method is safe for concurrent use, and a write
// returns only when it is on disk.
type Engine interface {
	NodeReader
	NodeWriter
	NodeControl
	NodeParts
	Ports
	Collections
	Ramdisks
	Service
}

// NodeReader reads nodes. An ident is a UUID or a name; one that no node has is
// a *node.NotFoundError.
type NodeReader interface {
	Node(ctx context.Context, ident string) (*node.Node, error)
	Nodes(ctx context.Context, query node.Query) ([]*node.Node, error)
	// Inspection returns what the last inspection left behind, or a
	// *node.NotFoundError before the first one.
	Inspection(ctx context.Context, ident string) (*node.InspectionData, error)
}

// NodeWriter changes nodes. A node under work is a *node.LockedError.
type NodeWriter interface {
	// CreateNode stores a new node and returns it as stored. A UUID, name or
	// instance UUID that is taken is a *node.ConflictError, a parent that does
	// not exist or leads back to the node a *node.ValidationError.
	CreateNode(ctx context.Context, n *node.Node) (*node.Node, error)
	// UpdateNode runs change inside the write transaction on a fresh copy; it
	// may run again. What change returns as error is returned as it is, and
	// nothing is written then.
	UpdateNode(ctx context.Context, ident string, change func(*node.Node) error) (*node.Node, error)
	// DeleteNode removes a node with all that belongs to it. A state that does
	// not allow it is a *node.ConflictError, a protected node a
	// *node.ForbiddenError.
	DeleteNode(ctx context.Context, ident string) error
	// Provision starts a verb and returns when it is durable; the work goes on.
	// A state that does not allow the verb is a *node.TransitionError.
	Provision(ctx context.Context, ident string, request node.VerbRequest) error
	// SetPower asks for a power change and returns when it is durable. A zero
	// timeout means the engine's default. A target that the node's driver does
	// not support is a *node.ValidationError.
	SetPower(ctx context.Context, ident string, target node.PowerState, timeout time.Duration) error
	// SetMaintenance is idempotent. Ending maintenance clears reason and fault.
	SetMaintenance(ctx context.Context, ident string, on bool, reason string) error
}

// Ports reads and changes ports. An ident is a UUID or a name; one that no port
// has is a *node.NotFoundError.
type Ports interface {
	// Ports knows the filters "node_uuid" and "address".
	Ports(ctx context.Context, query node.Query) ([]*node.Port, error)
	Port(ctx context.Context, ident string) (*node.Port, error)
	// CreatePort stores a port of the node that NodeUUID names, which must
	// exist, else it is a *node.ValidationError. It works while the node is
	// under work. An address that is taken is a *node.ConflictError.
	CreatePort(ctx context.Context, p *node.Port) (*node.Port, error)
	// UpdatePort runs change like UpdateNode, with the port's node beside it,
	// which change only reads. A new NodeUUID moves the port: a node that does not
	// exist is a *node.ValidationError, a state of either node that does not allow
	// it a *node.ConflictError.
	UpdatePort(ctx context.Context, ident string, change func(*node.Port, *node.Node) error) (*node.Port, error)
	DeletePort(ctx context.Context, ident string) error
}

// Ramdisks answers machines that run the ramdisk. Nobody authenticates here, so
// an unknown machine, an ambiguous one and a node in the wrong state are all
// the same node.ErrNotFound; the reason belongs in the log.
type Ramdisks interface {
	Lookup(ctx context.Context, request node.LookupRequest) (*node.LookupAnswer, error)
	Heartbeat(ctx context.Context, ident string, beat node.Heartbeat) error
	// ContinueInspection takes the document that a ramdisk posted.
	ContinueInspection(ctx context.Context, post node.InspectionPost) (*node.LookupAnswer, error)
}

// Service tells how the engine itself is.
type Service interface {
	Conductors(ctx context.Context) ([]node.Conductor, error)
	// Ready returns an error while the engine cannot serve.
	Ready(ctx context.Context) error
}
