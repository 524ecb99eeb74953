package store

import (
	"database/sql"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// An inspection result may be an object in an object store, which the database
// knows by its key. The life of such an object: ReserveObject before it is
// written, KeepObject in the commit that makes it the node's result. From then on
// the node holds it. It loses its node when the node is deleted, gets another
// result or is inspected again before it was kept, and from then on it is garbage,
// which ClaimGarbage hands out until DropGarbage forgets it.

// ReserveObject returns the key of the object for a document's result: key, or
// the one that an earlier attempt at this document has reserved. Objects that were
// reserved for earlier documents of the node and never kept become garbage.
func (tx *Tx) ReserveObject(nodeID, documentID int64, key string) (string, error) {
	var reserved string
	found, err := tx.one("SELECT object_key FROM inventory_objects WHERE document_id = ?", []any{documentID}, &reserved)
	if found || err != nil {
		return reserved, err
	}
	if err := tx.exec("UPDATE inventory_objects SET node_id = NULL WHERE node_id = ? AND kept = 0", nodeID); err != nil {
		return "", err
	}
	return key, tx.exec("INSERT INTO inventory_objects (node_id, document_id, object_key) VALUES (?, ?, ?)", nodeID, documentID, key)
}

// KeepObject makes the object of a document the node's result, instead of every
// other result that the node has. Until removable, nobody removes it whatever
// becomes of the node: an attempt that was taken for dead may still be writing it.
func (tx *Tx) KeepObject(nodeID, documentID int64, removable time.Time) error {
	if err := tx.exec("UPDATE inventory_objects SET node_id = NULL WHERE node_id = ? AND document_id <> ?", nodeID, documentID); err != nil {
		return err
	}
	if err := tx.exec("UPDATE inventory_objects SET kept = 1, not_before = ? WHERE document_id = ?", removable.UnixMicro(), documentID); err != nil {
		return err
	}
	return tx.DropDocuments(nodeID, documentID)
}

// ReleaseObjects makes every object of a node garbage.
func (tx *Tx) ReleaseObjects(nodeID int64) error {
	return tx.exec("UPDATE inventory_objects SET node_id = NULL WHERE node_id = ?", nodeID)
}

// InspectionObject returns the key of the object that is the node's result, or a
// *node.NotFoundError. A result in the database is newer, so it must be asked for
// first.
func (tx *Tx) InspectionObject(n *node.Node) (string, error) {
	var key string
	found, err := tx.one("SELECT object_key FROM inventory_objects WHERE node_id = ? AND kept = 1", []any{n.ID}, &key)
	if err == nil && !found {
		err = &node.NotFoundError{Kind: inventoryKind, Ident: n.UUID}
	}
	return key, err
}

// Garbage is an object that nobody needs any more.
type Garbage struct {
	ID       int64
	Key      string
	Attempts int // how often the store refused to remove it
}

// ClaimGarbage returns up to limit objects to remove, and hands them to nobody
// else until hold has passed. An object that was never kept is handed out at
// earliest when grace has passed since it was first seen here, because it may be
// being written.
func (tx *Tx) ClaimGarbage(limit int, hold, grace time.Duration) ([]Garbage, error) {
	if err := tx.exec("UPDATE inventory_objects SET not_before = ? WHERE node_id IS NULL AND not_before IS NULL", tx.Now().Add(grace).UnixMicro()); err != nil {
		return nil, err
	}
	var due []Garbage
	err := tx.query(func(rows row) error {
		var g Garbage
		if err := rows.Scan(&g.ID, &g.Key, &g.Attempts); err != nil {
			return err
		}
		due = append(due, g)
		return nil
	}, "SELECT id, object_key, attempts FROM inventory_objects WHERE node_id IS NULL AND not_before <= ? ORDER BY not_before, id LIMIT ?"+tx.locking(" FOR UPDATE SKIP LOCKED"), tx.Now().UnixMicro(), limit)
	if err != nil {
		return nil, err
	}
	for _, g := range due {
		if err := tx.exec("UPDATE inventory_objects SET not_before = ? WHERE id = ?", tx.Now().Add(hold).UnixMicro(), g.ID); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// NextGarbage returns when the next garbage is due, now when some has not been
// seen yet; ok is false when there is none.
func (tx *Tx) NextGarbage() (at time.Time, ok bool, err error) {
	var count int
	var due sql.NullInt64
	_, err = tx.one("SELECT count(*), min(coalesce(not_before, 0)) FROM inventory_objects WHERE node_id IS NULL", nil, &count, &due)
	return time.UnixMicro(due.Int64).UTC(), count > 0, err
}

// PostponeGarbage stores the attempts of g and hands the object out again after wait.
func (tx *Tx) PostponeGarbage(g Garbage, wait time.Duration) error {
	return tx.exec("UPDATE inventory_objects SET attempts = ?, not_before = ? WHERE id = ?", g.Attempts, tx.Now().Add(wait).UnixMicro(), g.ID)
}

// DropGarbage forgets an object that has been removed.
func (tx *Tx) DropGarbage(id int64) error {
	return tx.exec("DELETE FROM inventory_objects WHERE id = ?", id)
}

// CountObjects returns how many objects are stored or to be removed.
func (tx *Tx) CountObjects() (int, error) {
	var count int
	_, err := tx.one("SELECT count(*) FROM inventory_objects", nil, &count)
	return count, err
}
