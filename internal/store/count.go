package store

import (
	"github.com/ingot-metal/ingot/internal/node"
)

// CountNodesByState returns how many nodes are in each provision state. States
// without nodes are absent. It reads an index and no node.
func (tx *Tx) CountNodesByState() (map[node.State]int, error) {
	counts := map[node.State]int{}
	err := tx.query(func(rows row) error {
		var state string
		var count int
		if err := rows.Scan(&state, &count); err != nil {
			return err
		}
		counts[node.State(state)] = count
		return nil
	}, "SELECT provision_state, count(*) FROM nodes GROUP BY provision_state")
	return counts, err
}
