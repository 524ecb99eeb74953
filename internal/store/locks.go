package store

import "fmt"

// On PostgreSQL writes run side by side, so a write locks what it decides on before
// it reads it, in the same trip to the server: the read then sees what the lock's
// last holder has committed, and nothing of it changes before the commit. SQLite
// runs one write after the other, and none of this does anything there.
//
// The order is: what belongs to a node after the node, a lease after its node. Two
// writes that lock in different orders may wait for each other; the server then ends
// one of them, which runs again.

// Advisory locks of a database, told apart by schema for those who keep several
// engines in one database.
const (
	migrationLock = "768001, hashtext(current_schema())"
	writeLock     = "768002, hashtext(current_schema())"
	nameLock      = "768003, hashtext(current_schema() || '/' || $1)" // of a session
	addressLocks  = 768004                                            // and a hash of schema and address
	boundLocks    = 768005                                            // and a hash of schema and name
)

// lock queues a statement that takes locks until the end of the write.
func (tx *Tx) lock(query string, args ...any) error {
	if tx.shared == nil {
		return nil
	}
	if err := checkText(args); err != nil {
		return err
	}
	return tx.db.exec(query, args)
}

// locking returns what makes a SELECT lock its rows, "" where writes do not run side
// by side.
func (tx *Tx) locking(clause string) string {
	if tx.shared == nil {
		return ""
	}
	return clause
}

// await waits for a place of this write among those of its process that begin with the
// same row.
func (tx *Tx) await(table, column string, value any) error {
	if tx.shared == nil {
		return nil
	}
	return tx.shared.await(fmt.Sprint(table, " ", column, " ", value))
}

// lockNode locks the node whose column has the value, and with it everything that
// belongs to the node.
func (tx *Tx) lockNode(column string, value any) error {
	if err := tx.await("nodes", column, value); err != nil {
		return err
	}
	return tx.lock("SELECT id FROM nodes WHERE "+column+" = ? FOR NO KEY UPDATE", value)
}

// lockRecord locks a record, and before it the node that it belongs to.
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

// addressBuckets bounds how much of the server's lock table addresses take, whatever
// somebody posts.
const addressBuckets = 2048

// lockAddresses makes writes that look for owners of the same addresses follow one
// another.
func (tx *Tx) lockAddresses(claims []Claim) error {
	if tx.shared == nil || len(claims) == 0 {
		return nil
	}
	addresses := make([]string, len(claims))
	for i, claim := range claims {
		addresses[i] = claim.Address
	}
	// In the order of their numbers, so that two writes do not wait for each other.
	return tx.lock(`SELECT pg_advisory_xact_lock(?::int, bucket) FROM (SELECT DISTINCT
		hashtext(current_schema() || '/' || address) & (?::int - 1) AS bucket FROM unnest(?::text[]) AS address ORDER BY bucket) AS buckets`,
		addressLocks, addressBuckets, addresses)
}

// LockBound makes the writes that call it with the same name follow one another until
// their commits. A write calls it before it counts what a bound of the whole database
// limits; what it counts then stays true.
func (tx *Tx) LockBound(name string) error {
	return tx.lock("SELECT pg_advisory_xact_lock(?::int, hashtext(current_schema() || '/' || ?::text))", boundLocks, name)
}
