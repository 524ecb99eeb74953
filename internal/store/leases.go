package store

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// AcquireLease gives the node to owner until ttl from now. A lease in force is a
// *node.LockedError, whoever holds it; an expired one is taken over under a new
// epoch.
func (tx *Tx) AcquireLease(nodeID int64, owner string, ttl time.Duration) (node.Lease, error) {
	var holder, uuid string
	var expires int64
	found, err := tx.one("SELECT leases.owner, leases.expires_at, nodes.uuid FROM leases JOIN nodes ON nodes.id = leases.node_id WHERE leases.node_id = ?",
		[]any{nodeID}, &holder, &expires, &uuid)
	if err != nil {
		return node.Lease{}, err
	}
	if found {
		if expires > tx.now.UnixMicro() {
			return node.Lease{}, &node.LockedError{Node: uuid, Owner: holder}
		}
		if _, err := tx.exec("DELETE FROM leases WHERE node_id = ?", nodeID); err != nil {
			return node.Lease{}, err
		}
	}
	lease := node.Lease{Owner: owner, ExpiresAt: tx.now.Add(ttl)}
	lease.Epoch, err = tx.insertKey("epoch", "INSERT INTO leases (node_id, owner, expires_at) VALUES (?, ?, ?)", nodeID, owner, lease.ExpiresAt.UnixMicro())
	return lease, err
}

// CheckLease returns node.ErrLeaseLost unless the lease of this epoch is in
// force. A checkpoint calls it before it writes.
func (tx *Tx) CheckLease(nodeID int64, lease node.Lease) error {
	var expires int64
	found, err := tx.one("SELECT expires_at FROM leases WHERE epoch = ? AND node_id = ?", []any{lease.Epoch, nodeID}, &expires)
	if err != nil {
		return err
	}
	if !found || expires <= tx.now.UnixMicro() {
		return node.ErrLeaseLost
	}
	return nil
}

// ReleaseLease gives the node back. Releasing a lease that has passed on does
// nothing.
func (tx *Tx) ReleaseLease(lease node.Lease) error {
	_, err := tx.exec("DELETE FROM leases WHERE epoch = ?", lease.Epoch)
	return err
}

// RenewLeases extends the leases of owner that are still in force to ttl from
// now.
func (tx *Tx) RenewLeases(owner string, ttl time.Duration) error {
	_, err := tx.exec("UPDATE leases SET expires_at = ? WHERE owner = ? AND expires_at > ?",
		tx.now.Add(ttl).UnixMicro(), owner, tx.now.UnixMicro())
	return err
}

// DropLeases ends every lease of owner. A conductor calls it when it starts: a
// lease under its own name is of a process that is gone.
func (tx *Tx) DropLeases(owner string) error {
	_, err := tx.exec("DELETE FROM leases WHERE owner = ?", owner)
	return err
}
