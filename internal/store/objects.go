package store

import (
	"database/sql"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// An inspection result may be an object in an object store. The database has only its key. The life
// of such an object begins with ReserveObject, before the object is written. KeepObject, in the
// commit that makes the object the node's result, gives the object to the node. The object loses
// its node when the node is deleted, when the node gets another result, or when the node is
// inspected again before KeepObject. From then on the object is garbage: ClaimGarbage hands it out,
// until DropGarbage forgets it.

// ReserveObject returns the key of the object for a document's result: key, or the key that an
// earlier attempt at this document has reserved. Objects that were reserved for earlier documents
// of the node but never kept become garbage.
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

// KeepObject makes the object of a document the node's result, and drops all other results of the
// node. Nobody removes the object before removable, whatever becomes of the node, because an
// attempt that was taken for dead may still be writing it.
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
// *node.NotFoundError. A result in the database is newer, so the caller asks for that first.
func (tx *Tx) InspectionObject(n *node.Node) (string, error) {
	var key string
	found, err := tx.one("SELECT object_key FROM inventory_objects WHERE node_id = ? AND kept = 1", []any{n.ID}, &key)
	if err == nil && !found {
		err = &node.NotFoundError{Kind: inventoryKind, Ident: n.UUID}
	}
	return key, err
}

// Garbage is an object that is no longer needed.
type Garbage struct {
	ID       int64
	Key      string
	Attempts int // how often the store refused to remove it
}

// ClaimGarbage returns up to limit objects to remove, and does not return them again until hold has
// passed. An object that was never kept may still be being written, so ClaimGarbage returns it only
// when grace has passed since it first saw the object.
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

// NextGarbage returns when the next garbage is due, which is now for garbage that ClaimGarbage has
// not seen yet; ok is false when there is none.
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
