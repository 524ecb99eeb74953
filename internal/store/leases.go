package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// leaseColumns are what leaseRow takes, of a node's lease that may be absent.
const leaseColumns = "leases.epoch, leases.owner, leases.expires_at, leases.busy_until"

// leaseRow is a lease as the database returns it.
type leaseRow struct {
	epoch, expires, busy sql.NullInt64
	owner                sql.NullString
}

func (r *leaseRow) targets() []any { return []any{&r.epoch, &r.owner, &r.expires, &r.busy} }

// lease is the zero value when the row has none.
func (r *leaseRow) lease() node.Lease {
	if !r.epoch.Valid {
		return node.Lease{}
	}
	lease := node.Lease{Owner: r.owner.String, Epoch: r.epoch.Int64, ExpiresAt: time.UnixMicro(r.expires.Int64).UTC()}
	if r.busy.Valid {
		lease.BusyUntil = time.UnixMicro(r.busy.Int64).UTC()
	}
	return lease
}

// LeaseOf returns the lease of the node with this UUID or name, the zero value when
// there is none, or a *node.NotFoundError. It reads less than Node and locks nothing:
// it is for those who wait for a node.
func (tx *Tx) LeaseOf(ident string) (node.Lease, error) {
	for _, column := range identColumns(ident) {
		var lease leaseRow
		found, err := tx.one("SELECT "+leaseColumns+" FROM nodes LEFT JOIN leases ON leases.node_id = nodes.id WHERE nodes."+column+" = ?",
			[]any{ident}, lease.targets()...)
		if found || err != nil {
			return lease.lease(), err
		}
	}
	return node.Lease{}, &node.NotFoundError{Kind: "Node", Ident: ident}
}

// AcquireLease gives the node to owner until ttl from now. A lease in force is a
// *node.LockedError, or a *node.SuspendedError, whoever holds it, and so is one that ended while a call to the
// machine may still be on its way; any other is taken over under a new epoch.
func (tx *Tx) AcquireLease(nodeID int64, owner string, ttl time.Duration) (node.Lease, error) {
	if !tx.free[nodeID] { // else this write has locked it
		if err := tx.lockNode("id", nodeID); err != nil {
			return node.Lease{}, err
		}
	}
	lease := node.Lease{Owner: owner, ExpiresAt: tx.Now().Add(ttl)}
	granted, err := tx.grant(nodeID, &lease)
	if err == nil && granted && tx.created != nodeID {
		// Its work is not free to be claimed meanwhile.
		err = tx.exec("UPDATE work SET epoch = ? WHERE node_id = ?", lease.Epoch, nodeID)
	}
	if granted || err != nil {
		return lease, err
	}
	var holder, uuid string
	found, err := tx.one("SELECT leases.owner, nodes.uuid FROM leases JOIN nodes ON nodes.id = leases.node_id WHERE leases.node_id = ?",
		[]any{nodeID}, &holder, &uuid)
	if err == nil && !found {
		err = errors.New("it was given back in between")
	}
	if err != nil {
		return node.Lease{}, fmt.Errorf("lease node %d: %w", nodeID, err)
	}
	return node.Lease{}, (&node.Node{UUID: uuid, Lease: node.Lease{Owner: holder}}).Locked()
}

// grant stores a lease under a new epoch unless the node has one in force. A node that
// this write has locked and found without one has none.
func (tx *Tx) grant(nodeID int64, lease *node.Lease) (granted bool, err error) {
	if err := tx.keepEpochs(); err != nil {
		return false, err
	}
	defer func() { tx.epochs.add(lease.Epoch) }()
	if tx.free[nodeID] {
		lease.Epoch, err = tx.insertNext("leases", "epoch", "node_id, owner, expires_at", "?, ?, ?", nodeID, lease.Owner, lease.ExpiresAt.UnixMicro())
		delete(tx.free, nodeID)
		return true, err
	}
	if err := tx.exec("DELETE FROM leases WHERE node_id = ? AND expires_at <= ?", nodeID, tx.Now().UnixMicro()); err != nil {
		return false, err
	}
	lease.Epoch, granted, err = tx.insertKey("epoch", "INSERT INTO leases (node_id, owner, expires_at) VALUES (?, ?, ?) ON CONFLICT (node_id) DO NOTHING",
		nodeID, lease.Owner, lease.ExpiresAt.UnixMicro())
	return granted, err
}

// grantedEpochs are the epochs that a process has got from SQLite, which takes them back with
// the write that failed and would grant them again: whoever ran that write may remember its lease.
type grantedEpochs struct {
	highest   int64
	forgotten bool // the database may have taken it back
}

func (g *grantedEpochs) add(epoch int64) {
	if g != nil {
		g.highest = max(g.highest, epoch)
	}
}

// keepEpochs is called before leases are granted, so that no epoch is granted twice.
func (tx *Tx) keepEpochs() error {
	if tx.epochs == nil || !tx.epochs.forgotten {
		return nil
	}
	tx.epochs.forgotten = false
	return tx.raiseEpochs(tx.epochs.highest)
}

// raiseEpochs makes SQLite grant higher epochs only.
func (tx *Tx) raiseEpochs(last int64) error {
	err := tx.exec("INSERT INTO sqlite_sequence (name, seq) SELECT 'leases', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'leases')")
	if err != nil {
		return err
	}
	return tx.exec("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'leases'", last)
}

// CheckLease returns node.ErrLeaseLost unless the lease of this epoch is in
// force. A checkpoint calls it before it writes.
func (tx *Tx) CheckLease(nodeID int64, lease node.Lease) error {
	if err := tx.lockNode("id", nodeID); err != nil {
		return err
	}
	var expires int64
	found, err := tx.one("SELECT expires_at FROM leases WHERE epoch = ? AND node_id = ?", []any{lease.Epoch, nodeID}, &expires)
	if err != nil {
		return err
	}
	if !found || expires <= tx.Now().UnixMicro() {
		return node.ErrLeaseLost
	}
	return nil
}

// HoldMachine stores, before a call that changes the machine is made under a lease,
// until when that call may be on its way, and makes the lease last for margin, at
// least 0, beyond that. Nobody gets the node before, whatever becomes of the lease
// and its holder. A hold replaces the one before it. It sets the times of lease, that of
// its end with the commit at the latest; a lease that is not in force is
// node.ErrLeaseLost, here or from the commit.
func (tx *Tx) HoldMachine(lease *node.Lease, until time.Time, margin time.Duration) error {
	last := until.Add(margin).UnixMicro()
	return tx.changeOne(func(r row) error {
		var expires int64
		if err := r.Scan(&expires); err != nil {
			return fmt.Errorf("read a lease: %w", err)
		}
		lease.ExpiresAt, lease.BusyUntil = time.UnixMicro(expires).UTC(), time.UnixMicro(until.UnixMicro()).UTC()
		return nil
	}, node.ErrLeaseLost, `UPDATE leases SET busy_until = ?, expires_at = CASE WHEN expires_at < ? THEN ? ELSE expires_at END
		WHERE epoch = ? AND expires_at > ? RETURNING expires_at`, until.UnixMicro(), last, last, lease.Epoch, tx.Now().UnixMicro())
}

// EndHold stores that no call to the machine is on its way any more. It does so too
// when the lease has ended meanwhile.
func (tx *Tx) EndHold(lease *node.Lease) error {
	lease.BusyUntil = time.Time{}
	if err := tx.exec("UPDATE leases SET busy_until = NULL WHERE epoch = ?", lease.Epoch); err != nil {
		return err
	}
	return tx.exec("DELETE FROM leases WHERE epoch = ?", -lease.Epoch)
}

// EndLease gives the node back when no call to its machine is on its way any more,
// also when the lease has ended meanwhile.
func (tx *Tx) EndLease(lease node.Lease) error {
	return tx.exec("DELETE FROM leases WHERE epoch IN (?, ?)", lease.Epoch, -lease.Epoch)
}

// ReleaseLease gives the node back, but not before the call that HoldMachine told of
// has ended. Releasing a lease that has passed on does nothing.
func (tx *Tx) ReleaseLease(lease node.Lease) error {
	return tx.endLeases("epoch = ?", lease.Epoch)
}

// DropLeases ends every lease of owner, like ReleaseLease. A conductor calls it when
// it starts: a lease under its own name is of a process that is gone.
func (tx *Tx) DropLeases(owner string) error {
	return tx.endLeases("owner = ?", owner)
}

// callOwner is the owner of a lease that only a call is left of, when its work was
// suspended in between.
const callOwner = "(call under way)"

// endLeases ends the leases that fit. A negative epoch is nobody's: such a row only
// keeps others from the node while its call is on its way. Another write may end that
// call, or grant a lease, between the two statements.
func (tx *Tx) endLeases(which string, arg any) error {
	now := tx.Now().UnixMicro()
	if err := tx.exec("UPDATE leases SET epoch = -epoch, expires_at = busy_until, owner = CASE owner WHEN '"+node.SuspendedOwner+"' THEN '"+callOwner+"' ELSE owner END WHERE "+
		which+" AND epoch > 0 AND busy_until > ?", arg, now); err != nil {
		return err
	}
	return tx.exec("DELETE FROM leases WHERE "+which+" AND coalesce(busy_until, 0) <= ?", arg, now)
}

// expiredAtOnce bounds how many leases that have run out one write removes.
const expiredAtOnce = 100

// endExpired removes leases that have run out but those that a scope leaves, so that their
// work is free. One that another write is at stays.
func (tx *Tx) endExpired(owner string, scope WorkScope) error {
	ends, epochs := tx.notHeld(scope.Held)
	args := []any{tx.Now().UnixMicro(), epochs}
	if scope.Spare {
		ends += " AND owner = ?"
		args = append(args, owner)
	}
	return tx.exec("DELETE FROM leases WHERE epoch IN (SELECT epoch FROM leases WHERE expires_at <= ? AND "+ends+" ORDER BY expires_at LIMIT ?"+
		tx.locking(" FOR UPDATE SKIP LOCKED")+")", append(args, expiredAtOnce)...)
}

// notHeld is the condition that a lease is none of these, however many they are, and its
// argument.
func (tx *Tx) notHeld(held []int64) (condition string, arg any) {
	held = append([]int64{}, held...) // a list without any, and no null
	if tx.takesLists {
		return "epoch <> ALL (CAST(? AS BIGINT[]))", held
	}
	list, _ := json.Marshal(held) // numbers always can be
	return "epoch NOT IN (SELECT value FROM json_each(?))", string(list)
}

// renewRows is how many leases one statement renews.
const renewRows = 256

// RenewLeases extends the leases of owner that nobody else has ended to ttl from now,
// unless they last longer, and returns the epochs of the others, which are lost. One
// that has run out is in force again: while it is there, nobody else has had the node.
// One that another write is at stays as it is until the next time, so that no lease
// waits for another. A lease that owner has forgotten is not among them and runs out.
func (tx *Tx) RenewLeases(owner string, epochs []int64, ttl time.Duration) (lost []int64, err error) {
	ours := "SELECT epoch FROM leases WHERE owner = ? AND epoch IN (" + marks(renewRows) + ")"
	expires := tx.Now().Add(ttl).UnixMicro()
	rest, err := withoutLeases(epochs, tx.change, "UPDATE leases SET expires_at = CASE WHEN expires_at < ? THEN ? ELSE expires_at END WHERE epoch IN ("+
		ours+tx.locking(" FOR NO KEY UPDATE SKIP LOCKED")+") RETURNING epoch", expires, expires, owner)
	if err != nil {
		return nil, err
	}
	return withoutLeases(rest, tx.query, ours, owner)
}

// withoutLeases runs a query that ends in renewRows epochs for all of these, and
// returns those that it did not return.
func withoutLeases(epochs []int64, run func(scan func(row) error, query string, args ...any) error, query string, args ...any) ([]int64, error) {
	found := make(map[int64]bool, len(epochs))
	for some := range slices.Chunk(epochs, renewRows) {
		all := slices.Clone(args)
		for i := range renewRows { // always as many, so that there is one statement
			all = append(all, some[min(i, len(some)-1)])
		}
		if err := run(func(r row) error {
			var epoch int64
			err := r.Scan(&epoch)
			found[epoch] = true
			return err
		}, query, all...); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(epochs), func(epoch int64) bool { return found[epoch] }), nil
}
