package store

import "fmt"

// On PostgreSQL writes run side by side. So a write locks the rows that it bases its decisions on
// before it reads them, in the same trip to the server. The read then sees what the last holder of
// the lock has committed, and the rows do not change before the commit. SQLite runs one write after
// the other, so all functions here do nothing there.
//
// The order of locks is: first a node, then its records; first a node, then its lease. Two writes
// that lock in different orders may wait for each other. The server then ends one of them, and that
// write runs again.

// Advisory locks of a database. The schema is part of their numbers, because several engines may
// share a database by schema.
const (
	migrationLock = "768001, hashtext(current_schema())"
	writeLock     = "768002, hashtext(current_schema())"
	nameLock      = "768003, hashtext(current_schema() || '/' || $1)" // held by a session
	addressLocks  = 768004                                            // and a hash of schema and address
	nameLocks     = 768005                                            // and a hash of schema and name
)

// lock queues a statement that locks rows until the end of the write.
func (tx *Tx) lock(query string, args ...any) error {
	if tx.shared == nil {
		return nil
	}
	if err := checkText(args); err != nil {
		return err
	}
	return tx.db.exec(query, args)
}

// locking returns the clause that makes a SELECT lock its rows, "" where writes do not run side by
// side.
func (tx *Tx) locking(clause string) string {
	if tx.shared == nil {
		return ""
	}
	return clause
}

// await waits until this write may begin, when other writes of its process begin with the same row.
func (tx *Tx) await(table, column string, value any) error {
	if tx.shared == nil {
		return nil
	}
	return tx.shared.await(fmt.Sprint(table, " ", column, " ", value))
}

// lockNode locks the node whose column has the value, which also protects everything that belongs
// to the node.
func (tx *Tx) lockNode(column string, value any) error {
	if err := tx.await("nodes", column, value); err != nil {
		return err
	}
	return tx.lock("SELECT id FROM nodes WHERE "+column+" = ? FOR NO KEY UPDATE", value)
}

// lockRecord locks a record, and before it the node that it belongs to, if any.
func (tx *Tx) lockRecord(table, column, value string, owned bool) error {
	if err := tx.await(table, column, value); err != nil {
		return err
	}
	if owned {
		if err := tx.lock("SELECT id FROM nodes WHERE id = (SELECT node_id FROM "+table+" WHERE "+column+" = ?) FOR NO KEY UPDATE", value); err != nil {
			return err
		}
	}
	return tx.lock("SELECT id FROM "+table+" WHERE "+column+" = ? FOR NO KEY UPDATE", value)
}

// addressBuckets is how many entries of the server's lock table addresses can take at most, however
// many addresses machines post.
const addressBuckets = 2048

// lockAddresses makes writes that search for owners of the same addresses run one after another.
func (tx *Tx) lockAddresses(claims []Claim) error {
	if tx.shared == nil || len(claims) == 0 {
		return nil
	}
	addresses := make([]string, len(claims))
	for i, claim := range claims {
		addresses[i] = claim.Address
	}
	// The locks are taken in the order of their numbers, so that two writes do not wait for each
	// other.
	return tx.lock(`SELECT pg_advisory_xact_lock(?::int, bucket) FROM (SELECT DISTINCT
		hashtext(current_schema() || '/' || address) & (?::int - 1) AS bucket FROM unnest(?::text[]) AS address ORDER BY bucket) AS buckets`,
		addressLocks, addressBuckets, addresses)
}

// LockName makes all writes that call it with the same name run one after another, until their
// commits. A write calls it before it counts rows that a limit of the whole database applies to, so
// that the count stays true.
func (tx *Tx) LockName(name string) error {
	return tx.lock("SELECT pg_advisory_xact_lock(?::int, hashtext(current_schema() || '/' || ?::text))", nameLocks, name)
}
