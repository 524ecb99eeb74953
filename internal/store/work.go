package store

import (
	"database/sql"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// WorkKind says what is to be done; package conductor defines the kinds.
type WorkKind string

// Work is one thing that a conductor owes a node.
type Work struct {
	ID        int64
	NodeID    int64
	NodeUUID  string // for people; not stored with the work
	Kind      WorkKind
	Step      string      // last checkpoint; empty before the first
	Intent    node.Object // what the kind needs to know
	Attempts  int         // how often it failed for a reason that may pass
	NotBefore time.Time
	CreatedAt time.Time
	Lease     node.Lease // under which it may be done
}

// AddWork stores work for a node and sets its key. The zero NotBefore means now.
func (tx *Tx) AddWork(w *Work) error {
	if w.NotBefore.IsZero() {
		w.NotBefore = tx.now
	}
	w.CreatedAt = tx.now
	id, err := tx.insert("INSERT INTO work (node_id, kind, step, intent, attempts, not_before, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		w.NodeID, string(w.Kind), orNull(w.Step), orNull(string(w.Intent)), w.Attempts, w.NotBefore.UnixMicro(), w.CreatedAt.UnixMicro())
	w.ID = id
	return err
}

// WorkScope leaves out work that is for others. The zero value leaves out none.
type WorkScope struct {
	NotGroups []string   // conductor groups of nodes that others serve
	Kinds     []WorkKind // the only ones that are wanted; empty means all
}

// condition is the scope as a part of a WHERE clause over work and nodes.
func (s WorkScope) condition() (condition string, args []any) {
	for _, group := range s.NotGroups {
		args = append(args, group)
	}
	for _, kind := range s.Kinds {
		args = append(args, string(kind))
	}
	if len(s.NotGroups) > 0 {
		condition += " AND coalesce(nodes.conductor_group, '') NOT IN (" + marks(len(s.NotGroups)) + ")"
	}
	if len(s.Kinds) > 0 {
		condition += " AND work.kind IN (" + marks(len(s.Kinds)) + ")"
	}
	return condition, args
}

// ClaimWork takes up to limit pieces of work in a scope that are due and whose
// node nobody works on, and leases their nodes to owner.
func (tx *Tx) ClaimWork(owner string, ttl time.Duration, limit int, scope WorkScope) ([]*Work, error) {
	now := tx.now.UnixMicro()
	condition, args := scope.condition()
	var due []*Work
	err := tx.query(func(rows row) error {
		w := &Work{}
		var step, intent sql.NullString
		var notBefore, created int64
		if err := rows.Scan(&w.ID, &w.NodeID, &w.NodeUUID, &w.Kind, &step, &intent, &w.Attempts, &notBefore, &created); err != nil {
			return err
		}
		w.Step, w.Intent = step.String, node.Object(intent.String)
		w.NotBefore, w.CreatedAt = time.UnixMicro(notBefore).UTC(), time.UnixMicro(created).UTC()
		due = append(due, w)
		return nil
	}, `SELECT work.id, work.node_id, nodes.uuid, work.kind, work.step, work.intent, work.attempts, work.not_before, work.created_at
		FROM work JOIN nodes ON nodes.id = work.node_id LEFT JOIN leases ON leases.node_id = work.node_id
		WHERE work.not_before <= ? AND (leases.epoch IS NULL OR leases.expires_at <= ?)`+condition+`
		ORDER BY work.not_before, work.id LIMIT ?`, slices.Concat([]any{now, now}, args, []any{limit})...)
	if err != nil {
		return nil, err
	}
	claimed := due[:0]
	leased := map[int64]bool{}
	for _, w := range due {
		if leased[w.NodeID] {
			continue // the node's earlier work comes first
		}
		if w.Lease, err = tx.AcquireLease(w.NodeID, owner, ttl); err != nil {
			return nil, err
		}
		leased[w.NodeID] = true
		claimed = append(claimed, w)
	}
	return claimed, nil
}

// NextDue returns when the earliest work in a scope that nobody works on is due;
// ok is false when there is none.
func (tx *Tx) NextDue(scope WorkScope) (at time.Time, ok bool, err error) {
	condition, args := scope.condition()
	var due sql.NullInt64
	_, err = tx.one(`SELECT min(CASE WHEN leases.expires_at > work.not_before THEN leases.expires_at ELSE work.not_before END)
		FROM work JOIN nodes ON nodes.id = work.node_id LEFT JOIN leases ON leases.node_id = work.node_id
		WHERE 1 = 1`+condition, args, &due)
	return time.UnixMicro(due.Int64).UTC(), due.Valid, err
}

// PostponeWork counts a failed attempt and makes the work due again at notBefore.
func (tx *Tx) PostponeWork(w *Work, notBefore time.Time) error {
	w.Attempts++
	w.NotBefore = notBefore
	err := tx.exec("UPDATE work SET attempts = ?, not_before = ? WHERE id = ?", w.Attempts, notBefore.UnixMicro(), w.ID)
	return err
}

// FinishWork removes work that is done.
func (tx *Tx) FinishWork(w *Work) error {
	err := tx.exec("DELETE FROM work WHERE id = ?", w.ID)
	return err
}

// CountWork returns how much work is stored, running or not.
func (tx *Tx) CountWork() (int, error) {
	var count int
	_, err := tx.one("SELECT count(*) FROM work", nil, &count)
	return count, err
}
