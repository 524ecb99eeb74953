package store

import (
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// WorkKind is the kind of work; package conductor defines the kinds.
type WorkKind string

// Work is one task that a conductor has to do for a node.
type Work struct {
	ID         int64
	NodeID     int64
	NodeUUID   string // for people; not stored with the work
	Kind       WorkKind
	Checkpoint string      // last checkpoint; empty before the first
	Intent     node.Object // data that this kind of work needs
	Attempts   int         // failures so far for reasons that may pass
	NotBefore  time.Time
	CreatedAt  time.Time
	Lease      node.Lease // the lease under which it may be done
}

// ExpectWork says that the write is about to lease the node that it reads next and to store work
// for it. That saves a trip to the server.
func (tx *Tx) ExpectWork() { tx.expectsWork = true }

// AddWork stores work for a node and sets its key. The zero NotBefore means now. Without a lease of
// its own, the work belongs to the lease that the node has, if any.
func (tx *Tx) AddWork(w *Work) error {
	if w.NotBefore.IsZero() {
		w.NotBefore = tx.Now()
	}
	w.CreatedAt = tx.Now()
	epoch, epochArg := "?", any(w.Lease.Epoch)
	if w.Lease.Epoch == 0 {
		epoch, epochArg = "(SELECT epoch FROM leases WHERE node_id = ?)", w.NodeID
	}
	id, err := tx.insertNext("work", "id",
		"node_id, kind, step, intent, attempts, not_before, created_at, epoch", "?, ?, ?, ?, ?, ?, ?, "+epoch,
		w.NodeID, string(w.Kind), orNull(w.Checkpoint), orNull(string(w.Intent)), w.Attempts, w.NotBefore.UnixMicro(), w.CreatedAt.UnixMicro(), epochArg)
	w.ID = id
	tx.note.added(w)
	return err
}

const workColumns = "work.id, work.node_id, work.kind, work.step, work.intent, work.attempts, work.not_before, work.created_at"

// scanWork reads the columns of workColumns, then the other columns into extra.
func scanWork(r row, extra ...any) (*Work, error) {
	w := &Work{}
	var checkpoint, intent sql.NullString
	var notBefore, created int64
	into := append([]any{&w.ID, &w.NodeID, &w.Kind, &checkpoint, &intent, &w.Attempts, &notBefore, &created}, extra...)
	if err := r.Scan(into...); err != nil {
		return nil, fmt.Errorf("read work: %w", err)
	}
	w.Checkpoint, w.Intent = checkpoint.String, node.Object(intent.String)
	w.NotBefore, w.CreatedAt = time.UnixMicro(notBefore).UTC(), time.UnixMicro(created).UTC()
	return w, nil
}

// WorkScope selects work by leaving out work for others. The zero value selects all.
type WorkScope struct {
	NotGroups []string   // conductor groups that others serve
	Kinds     []WorkKind // the only kinds wanted; empty means all
	NotIDs    []int64    // keys of work that is not wanted
	InUse     []int64    // epochs of leases in use by their holder, whose claims do not end them
	// KeepExpired leaves expired leases of others alone, because their holders may renew them.
	KeepExpired bool
}

// condition returns the scope as a part of a WHERE clause over work and nodes.
func (s WorkScope) condition() (condition string, args []any) {
	for _, group := range s.NotGroups {
		args = append(args, group)
	}
	for _, id := range s.NotIDs {
		args = append(args, id)
	}
	for _, kind := range s.Kinds {
		args = append(args, string(kind))
	}
	if len(s.NotGroups) > 0 {
		condition += " AND coalesce(nodes.conductor_group, '') NOT IN (" + marks(len(s.NotGroups)) + ")"
	}
	if len(s.NotIDs) > 0 {
		condition += " AND work.id NOT IN (" + marks(len(s.NotIDs)) + ")"
	}
	if len(s.Kinds) > 0 {
		condition += " AND work.kind IN (" + marks(len(s.Kinds)) + ")"
	}
	return condition, args
}

// ClaimWork takes up to limit pieces of due work in a scope whose nodes nobody works on, and leases
// the nodes to holder. It first ends expired leases, except those that are InUse, or that belong to
// others if the scope has KeepExpired. It leaves out work that another write has locked. In a
// database that WasRestored it claims nothing.
func (tx *Tx) ClaimWork(holder string, ttl time.Duration, limit int, scope WorkScope) ([]*Work, error) {
	if err := tx.endExpired(holder, scope); err != nil {
		return nil, err
	}
	nodes, err := tx.dueNodes(limit, scope)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	if restored, err := tx.WasRestored(); restored || err != nil {
		return nil, err
	}
	var claimed []*Work
	for some := range slices.Chunk(nodes, maxRows) {
		part, err := tx.claimWorkOf(some, holder, ttl, scope)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, part...)
	}
	return claimed, nil
}

// selectDue finds the earliest claimable work by an index. It also checks the leases themselves,
// because processes of the previous version may have granted some.
const selectDue = ` FROM work JOIN nodes ON nodes.id = work.node_id WHERE work.epoch IS NULL
	AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.node_id = work.node_id)`

// inDueOrder is the order in which work is claimed.
const inDueOrder = " ORDER BY work.not_before, work.id"

// dueNodes returns the nodes of up to limit pieces of due work, each node once, and locks them for
// the lease that they get.
func (tx *Tx) dueNodes(limit int, scope WorkScope) ([]any, error) {
	condition, args := scope.condition()
	var nodes []any
	err := tx.query(func(r row) error {
		var id int64
		if err := r.Scan(&id); err != nil {
			return fmt.Errorf("read due work: %w", err)
		}
		if !slices.Contains(nodes, any(id)) {
			nodes = append(nodes, id)
		}
		return nil
	}, "SELECT work.node_id"+selectDue+" AND work.not_before <= ?"+condition+inDueOrder+" LIMIT ?"+tx.locking(" FOR NO KEY UPDATE OF nodes SKIP LOCKED"),
		slices.Concat([]any{tx.Now().UnixMicro()}, args, []any{limit})...)
	return nodes, err
}

// claimWorkOf leases nodes, at most maxRows, and returns the earliest due work of each. What was
// found before the nodes were locked may have changed: claimWorkOf leaves out a node that got a
// lease meanwhile, and gives back a node without due work.
func (tx *Tx) claimWorkOf(nodes []any, holder string, ttl time.Duration, scope WorkScope) ([]*Work, error) {
	for len(nodes) < maxRows { // always the same number, for a single prepared statement
		nodes = append(nodes, nodes[0])
	}
	expires := tx.Now().Add(ttl)
	among := " IN (" + marks(maxRows) + ")"
	leases := map[int64]node.Lease{}
	if err := tx.keepEpochs(); err != nil {
		return nil, err
	}
	err := tx.change(func(r row) error {
		lease := node.Lease{Holder: holder, ExpiresAt: expires}
		var id int64
		err := r.Scan(&lease.Epoch, &id)
		leases[id] = lease
		tx.epochs.add(lease.Epoch)
		return err
	}, "INSERT INTO leases (node_id, owner, expires_at) SELECT id, CAST(? AS TEXT), CAST(? AS BIGINT) FROM nodes WHERE id"+among+
		" ON CONFLICT (node_id) DO NOTHING RETURNING epoch, node_id", slices.Concat([]any{holder, expires.UnixMicro()}, nodes)...)
	if err != nil {
		return nil, err
	}
	if err := tx.exec("UPDATE work SET epoch = (SELECT epoch FROM leases WHERE leases.node_id = work.node_id) WHERE node_id"+among, nodes...); err != nil {
		return nil, err
	}
	condition, args := scope.condition()
	var claimed []*Work
	err = tx.query(func(r row) error {
		var uuid string
		w, err := scanWork(r, &uuid)
		if err != nil {
			return err
		}
		if lease, ok := leases[w.NodeID]; ok { // only the node's earliest work; its other work waits
			delete(leases, w.NodeID)
			w.NodeUUID, w.Lease = uuid, lease
			tx.note.claimed(w)
			claimed = append(claimed, w)
		}
		return nil
	}, "SELECT "+workColumns+", nodes.uuid FROM work JOIN nodes ON nodes.id = work.node_id WHERE work.node_id"+among+" AND work.not_before <= ?"+condition+inDueOrder,
		slices.Concat(nodes, []any{tx.Now().UnixMicro()}, args)...)
	if err != nil {
		return nil, err
	}
	for _, lease := range leases {
		if err := tx.EndLeaseKeepBusy(lease); err != nil {
			return nil, err
		}
	}
	return claimed, nil
}

// NextDue returns when ClaimWork may find more work: when the earliest claimable work in a scope is
// due, or when a lease expires, whichever comes first; ok is false when there is neither. Expired
// leases do not count if they are InUse, or if the scope has KeepExpired.
func (tx *Tx) NextDue(scope WorkScope) (at time.Time, ok bool, err error) {
	condition, args := scope.condition()
	notInUse, inUse := tx.notInUse(scope.InUse)
	if scope.KeepExpired {
		notInUse += " AND 1 = 0"
	}
	var due, end sql.NullInt64
	_, err = tx.one("SELECT (SELECT work.not_before"+selectDue+condition+inDueOrder+" LIMIT 1), (SELECT min(expires_at) FROM leases WHERE expires_at > ? OR ("+notInUse+"))",
		slices.Concat(args, []any{tx.Now().UnixMicro(), inUse}), &due, &end)
	if end.Valid && (!due.Valid || end.Int64 < due.Int64) {
		due = end
	}
	return time.UnixMicro(due.Int64).UTC(), due.Valid, err
}

// CheckpointWork stores the progress of work and when it is due again. The caller checks the lease
// in the same transaction.
func (tx *Tx) CheckpointWork(w *Work) error {
	tx.note.reached(w)
	return tx.exec("UPDATE work SET kind = ?, step = ?, intent = ?, attempts = ?, not_before = ? WHERE id = ?",
		string(w.Kind), orNull(w.Checkpoint), orNull(string(w.Intent)), w.Attempts, w.NotBefore.UnixMicro(), w.ID)
}

// FinishWork removes work that is done.
func (tx *Tx) FinishWork(w *Work) error {
	tx.note.finished(w)
	return tx.exec("DELETE FROM work WHERE id = ?", w.ID)
}

// EndWork removes work that is done and gives its node back, like FinishWork and EndLeaseAndBusy.
// On PostgreSQL that is one statement: deleting a row there costs less than one statement more.
func (tx *Tx) EndWork(w *Work) error {
	if tx.shared == nil {
		if err := tx.FinishWork(w); err != nil {
			return err
		}
		return tx.EndLeaseAndBusy(w.Lease)
	}
	tx.note.finished(w)
	return tx.exec("WITH done AS (DELETE FROM work WHERE id = ?) DELETE FROM leases WHERE epoch IN (?, ?)", w.ID, w.Lease.Epoch, -w.Lease.Epoch)
}

// DropWork removes a node's work of these kinds.
func (tx *Tx) DropWork(nodeID int64, kinds []WorkKind) error {
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = string(kind)
	}
	among, args := tx.among(texts)
	return tx.exec("DELETE FROM work WHERE node_id = ? AND kind "+among, append([]any{nodeID}, args...)...)
}

// WorkOf returns the work of a node, oldest first, without its lease. A write that bases a decision
// on the work reads the node before.
func (tx *Tx) WorkOf(nodeID int64) ([]*Work, error) {
	var works []*Work
	err := tx.query(func(r row) error {
		w, err := scanWork(r)
		works = append(works, w)
		return err
	}, "SELECT "+workColumns+" FROM work WHERE node_id = ? ORDER BY id", nodeID)
	return works, err
}

// CountWork returns how many pieces of work are stored, running or not.
func (tx *Tx) CountWork() (int, error) {
	var count int
	_, err := tx.one("SELECT count(*) FROM work", nil, &count)
	return count, err
}
