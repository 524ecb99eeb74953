package httpapi

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Engine is what the API needs of the engine. statusOf maps errors to the status of
// the answer. Every method is safe for concurrent use. A write returns when it is on
// disk.
type Engine interface {
	NodeReader
	NodeWriter
	NodeControl
	NodeParts
	Drivers
	Ports
	Collections
	Ramdisks
	Service
	Suspensions
}

// NodeReader reads nodes. An ident is a UUID or a name. When no node has it, the error
// is a *node.NotFoundError.
type NodeReader interface {
	Node(ctx context.Context, ident string) (*node.Node, error)
	Nodes(ctx context.Context, query node.Query) ([]*node.Node, error)
	// Inspection returns the data of the last inspection. Before the first one it is a
	// *node.NotFoundError.
	Inspection(ctx context.Context, ident string) (*node.InspectionData, error)
}

// NodeWriter changes nodes. A change of a locked node is a *node.LockedError.
type NodeWriter interface {
	// CreateNode stores a new node and returns it as stored. A UUID, name or
	// instance UUID that is taken is a *node.ConflictError, a parent that does
	// not exist or leads back to the node a *node.ValidationError.
	CreateNode(ctx context.Context, n *node.Node) (*node.Node, error)
	// UpdateNode runs change inside the write transaction, on a copy of the stored
	// node, possibly more than once. An error of change is returned unchanged, and
	// nothing is written.
	UpdateNode(ctx context.Context, ident string, change func(*node.Node) error) (*node.Node, error)
	// DeleteNode removes a node with its ports and all other parts. In a state that
	// does not allow it, the error is a *node.ConflictError; for a protected node, a
	// *node.ForbiddenError.
	DeleteNode(ctx context.Context, ident string) error
	// Provision starts a verb and returns when the request is durable; the work goes
	// on. In a state that does not allow the verb, the error is a *node.TransitionError.
	Provision(ctx context.Context, ident string, request node.VerbRequest) error
	// SetPower asks for a power change and returns when the request is durable. A zero
	// timeout means the engine's default. A target that the node's driver does
	// not support is a *node.ValidationError.
	SetPower(ctx context.Context, ident string, target node.PowerState, timeout time.Duration) error
	// SetMaintenance is idempotent. Ending maintenance clears reason and fault.
	SetMaintenance(ctx context.Context, ident string, on bool, reason string) error
}

// Ports reads and changes ports. An ident is a UUID or a name. When no port has it,
// the error is a *node.NotFoundError.
type Ports interface {
	// Ports supports the filters "node_uuid" and "address".
	Ports(ctx context.Context, query node.Query) ([]*node.Port, error)
	Port(ctx context.Context, ident string) (*node.Port, error)
	// CreatePort stores a port of the node that NodeUUID names. A node that does not
	// exist is a *node.ValidationError, an address that is taken a
	// *node.ConflictError. The node may be locked.
	CreatePort(ctx context.Context, p *node.Port) (*node.Port, error)
	// UpdatePort runs change like UpdateNode. change gets the node of the port too and
	// must not change it. A new NodeUUID moves the port: a node that does not exist is
	// a *node.ValidationError, a state of either node that does not allow the move a
	// *node.ConflictError.
	UpdatePort(ctx context.Context, ident string, change func(*node.Port, *node.Node) error) (*node.Port, error)
	DeletePort(ctx context.Context, ident string) error
}

// Ramdisks serves machines that run the ramdisk. They are not authenticated, so an
// unknown machine, an ambiguous one and a node in the wrong state are all the same
// node.ErrNotFound; only the log has the reason.
type Ramdisks interface {
	// AwaitsRamdisk reports whether the node waits for its ramdisk.
	AwaitsRamdisk(ctx context.Context, uuid string) (bool, error)
	Lookup(ctx context.Context, request node.LookupRequest) (*node.LookupAnswer, error)
	Heartbeat(ctx context.Context, ident string, beat node.Heartbeat) error
	// HeartbeatRefused notes, for people, a heartbeat that never reached Heartbeat.
	HeartbeatRefused(ctx context.Context, ident string, reason node.RefusalReason, callbackURL string)
	// ContinueInspection accepts the document that a ramdisk posted.
	ContinueInspection(ctx context.Context, post node.InspectionPost) (*node.LookupAnswer, error)
}

// Service reports the state of the engine itself.
type Service interface {
	Conductors(ctx context.Context) ([]node.Conductor, error)
	// Ready returns an error while the engine cannot serve.
	Ready(ctx context.Context) error
}
