package store

import (
	"database/sql"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// CheckpointWork stores how far work has come and when it is due. The caller
// checks the lease in the same transaction.
func (tx *Tx) CheckpointWork(w *Work) error {
	err := tx.exec("UPDATE work SET kind = ?, step = ?, intent = ?, attempts = ?, not_before = ? WHERE id = ?",
		string(w.Kind), orNull(w.Step), orNull(string(w.Intent)), w.Attempts, w.NotBefore.UnixMicro(), w.ID)
	return err
}

// WorkOf returns the work that is stored for a node, oldest first, without its
// lease.
func (tx *Tx) WorkOf(nodeID int64) ([]*Work, error) {
	var works []*Work
	err := tx.query(func(rows row) error {
		w := &Work{NodeID: nodeID}
		var step, intent sql.NullString
		var notBefore, created int64
		if err := rows.Scan(&w.ID, &w.Kind, &step, &intent, &w.Attempts, &notBefore, &created); err != nil {
			return err
		}
		w.Step, w.Intent = step.String, node.Object(intent.String)
		w.NotBefore, w.CreatedAt = time.UnixMicro(notBefore).UTC(), time.UnixMicro(created).UTC()
		works = append(works, w)
		return nil
	}, "SELECT id, kind, step, intent, attempts, not_before, created_at FROM work WHERE node_id = ? ORDER BY id", nodeID)
	return works, err
}

// CountStates returns how many nodes are in any of these provision states.
func (tx *Tx) CountStates(states ...node.State) (int, error) {
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = string(s)
	}
	var count int
	_, err := tx.one("SELECT count(*) FROM nodes WHERE provision_state IN ("+marks(len(args))+")", args, &count)
	return count, err
}
