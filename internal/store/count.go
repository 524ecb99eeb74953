package store

import (
	"github.com/ingot-metal/ingot/internal/node"
)

// CountNodesByState returns how many nodes are in each provision state. States without nodes are
// absent. It reads only an index.
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

// CountStates returns how many nodes are in any of these provision states. A write that bases a
// decision on the number calls LockName first.
func (tx *Tx) CountStates(states ...node.State) (int, error) {
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = string(s)
	}
	var count int
	_, err := tx.one("SELECT count(*) FROM nodes WHERE provision_state IN ("+marks(len(args))+")", args, &count)
	return count, err
}
