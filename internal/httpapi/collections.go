package httpapi

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
)

// Collections has the resources other than nodes and ports.
type Collections interface {
	Chassis() node.Collection[node.Chassis]
	Portgroups() node.Collection[node.Portgroup]
	Allocations() node.Collection[node.Allocation]
	DeployTemplates() node.Collection[node.DeployTemplate]
	Runbooks() node.Collection[node.Runbook]
	VolumeConnectors() node.Collection[node.VolumeConnector]
	VolumeTargets() node.Collection[node.VolumeTarget]
	// Shards counts the nodes of each shard, and the nodes without a shard.
	Shards(ctx context.Context) ([]node.Shard, error)
}

// NodeParts reads and changes parts of a node that have paths of their own: traits
// and VIFs. A change of a locked node is a *node.LockedError.
type NodeParts interface {
	SetTraits(ctx context.Context, ident string, traits node.Words) error
	AddTrait(ctx context.Context, ident, trait string) error
	// RemoveTrait of a trait that the node does not have is a
	// *node.NotFoundError.
	RemoveTrait(ctx context.Context, ident, trait string) error
	VIFs(ctx context.Context, ident string) ([]string, error)
	// AttachVIF of a VIF that is attached is a *node.ConflictError; without a
	// free port it is a *node.ValidationError.
	AttachVIF(ctx context.Context, ident string, request node.VIFRequest) error
	// DetachVIF of a VIF that is not attached is a *node.ValidationError.
	DetachVIF(ctx context.Context, ident, id string) error
}
