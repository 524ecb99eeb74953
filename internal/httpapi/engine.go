package httpapi

import (
	"context"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Engine has the functions of the engine that the API needs. statusOf maps errors to the status of
// the answer. Every method is safe for concurrent use. A write returns when it is on disk.
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
	// CreateNode stores a new node and returns it as stored. A UUID, name or instance UUID that is
	// taken is a *node.ConflictError. A parent that does not exist or leads back to the node is a
	// *node.ValidationError.
	CreateNode(ctx context.Context, n *node.Node) (*node.Node, error)
	// UpdateNode runs change inside the write transaction, on a copy of the stored node, possibly
	// more than once. If change fails, nothing is written and the error is returned as it is.
	UpdateNode(ctx context.Context, ident string, change func(*node.Node) error) (*node.Node, error)
	// DeleteNode removes a node with its ports and all other parts. If the state of the node does
	// not allow it, the error is a *node.ConflictError; for a protected node, it is a
	// *node.ForbiddenError.
	DeleteNode(ctx context.Context, ident string) error
	// Provision starts a verb and returns when the request is durable, before the work ends. If the
	// state does not allow the verb, the error is a *node.TransitionError.
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
	// CreatePort stores a port of the node that NodeUUID names. A node that does not exist is a
	// *node.ValidationError. An address that is taken is a *node.ConflictError. The node may be
	// locked.
	CreatePort(ctx context.Context, p *node.Port) (*node.Port, error)
	// UpdatePort runs change like UpdateNode. change also gets the node of the port, which it must
	// not change. A new NodeUUID moves the port. A node that does not exist is then a
	// *node.ValidationError, and a state of either node that does not allow the move is a
	// *node.ConflictError.
	UpdatePort(ctx context.Context, ident string, change func(*node.Port, *node.Node) error) (*node.Port, error)
	DeletePort(ctx context.Context, ident string) error
}

// Ramdisks serves machines that run the ramdisk. They are not authenticated, so an unknown machine,
// an ambiguous one and a node in the wrong state all get the same node.ErrNotFound; only the log
// has the reason.
type Ramdisks interface {
	// AwaitsRamdisk reports whether the node waits for its ramdisk.
	AwaitsRamdisk(ctx context.Context, uuid string) (bool, error)
	Lookup(ctx context.Context, request node.LookupRequest) (*node.LookupAnswer, error)
	Heartbeat(ctx context.Context, ident string, beat node.Heartbeat) error
	// HeartbeatRefused records, for people, a heartbeat that was refused before Heartbeat.
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
