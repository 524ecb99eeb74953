package store

import (
	"github.com/ingot-metal/ingot/internal/node"
)

// Shards returns how many nodes each shard has, ordered by the name of the shard. Nodes without a
// shard come first, under the empty name.
func (tx *Tx) Shards() ([]node.Shard, error) {
	shards := []node.Shard{}
	err := tx.query(func(rows row) error {
		var shard node.Shard
		if err := rows.Scan(&shard.Name, &shard.Count); err != nil {
			return err
		}
		shards = append(shards, shard)
		return nil
	}, "SELECT coalesce(shard, ''), count(*) FROM nodes GROUP BY coalesce(shard, '') ORDER BY coalesce(shard, '')")
	return shards, err
}
