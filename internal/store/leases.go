package store

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// AcquireLease gives the node to owner until ttl from now. A lease in force is a
// *node.LockedError, whoever holds it; an expired one is taken over under a new
// epoch.
func (tx *Tx) AcquireLease(nodeID int64, owner string, ttl time.Duration) (node.Lease, error) {
	lease := node.Lease{Owner: owner, ExpiresAt: tx.now.Add(ttl)}
	granted, err := tx.grant(nodeID, &lease)
	if granted || err != nil {
		return lease, err
	}
	var holder, uuid string
	var expires int64
	if _, err := tx.one("SELECT leases.owner, leases.expires_at, nodes.uuid FROM leases JOIN nodes ON nodes.id = leases.node_id WHERE leases.node_id = ?",
		[]any{nodeID}, &holder, &expires, &uuid); err != nil {
		return node.Lease{}, err
	}
	if expires > tx.now.UnixMicro() {
		return node.Lease{}, &node.LockedError{Node: uuid, Owner: holder}
	}
	if err := tx.exec("DELETE FROM leases WHERE node_id = ?", nodeID); err != nil {
		return node.Lease{}, err
	}
	_, err = tx.grant(nodeID, &lease)
	return lease, err
}

// grant stores a lease under a new epoch unless the node has one.
func (tx *Tx) grant(nodeID int64, lease *node.Lease) (granted bool, err error) {
	lease.Epoch, granted, err = tx.insertKey("epoch", "INSERT INTO leases (node_id, owner, expires_at) VALUES (?, ?, ?) ON CONFLICT (node_id) DO NOTHING",
		nodeID, lease.Owner, lease.ExpiresAt.UnixMicro())
	return granted, err
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
	err := tx.exec("DELETE FROM leases WHERE epoch = ?", lease.Epoch)
	return err
}

// RenewLeases extends those of the leases of owner that are still in force to ttl
// from now. A lease that owner has forgotten is not among them and runs out.
func (tx *Tx) RenewLeases(owner string, epochs []int64, ttl time.Duration) error {
	for some := range slices.Chunk(epochs, maxRows) {
		args := []any{tx.now.Add(ttl).UnixMicro(), owner, tx.now.UnixMicro()}
		for _, epoch := range some {
			args = append(args, epoch)
		}
		err := tx.exec("UPDATE leases SET expires_at = ? WHERE owner = ? AND expires_at > ? AND epoch IN ("+marks(len(some))+")", args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// DropLeases ends every lease of owner. A conductor calls it when it starts: a
// lease under its own name is of a process that is gone.
func (tx *Tx) DropLeases(owner string) error {
	err := tx.exec("DELETE FROM leases WHERE owner = ?", owner)
	return err
}
