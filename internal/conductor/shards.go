package conductor

import (
	"context"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Shards counts the nodes of each shard.
func (c *Conductor) Shards(ctx context.Context) ([]node.Shard, error) {
	var shards []node.Shard
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		shards, err = tx.Shards()
		return err
	})
	return shards, err
}
