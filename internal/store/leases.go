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

// leaseColumns are the columns that leaseRow reads. They are null when the node has no lease.
const leaseColumns = "leases.epoch, leases.owner, leases.expires_at, leases.busy_until"

// leaseRow is a lease as the database returns it.
type leaseRow struct {
	epoch, expires, busy sql.NullInt64
	holder               sql.NullString
}

func (r *leaseRow) targets() []any { return []any{&r.epoch, &r.holder, &r.expires, &r.busy} }

// lease returns the lease of the row; the zero value when the node has none.
func (r *leaseRow) lease() node.Lease {
	if !r.epoch.Valid {
		return node.Lease{}
	}
	lease := node.Lease{Holder: r.holder.String, Epoch: r.epoch.Int64, ExpiresAt: time.UnixMicro(r.expires.Int64).UTC()}
	if r.busy.Valid {
		lease.BusyUntil = time.UnixMicro(r.busy.Int64).UTC()
	}
	return lease
}

// LeasesOf returns, by UUID, the leases of those nodes with these UUIDs that have one. It is one
// statement for any number of nodes and locks nothing. Requests that wait for nodes use it.
func (tx *Tx) LeasesOf(uuids []string) (map[string]node.Lease, error) {
	leases := make(map[string]node.Lease, len(uuids))
	query, asked := leasesOfList, any(uuids)
	if !tx.takesLists {
		list, _ := json.Marshal(uuids) // strings cannot fail
		query, asked = leasesOfJSON, string(list)
	}
	err := tx.query(func(r row) error {
		var uuid string
		var lease leaseRow
		if err := r.Scan(append([]any{&uuid}, lease.targets()...)...); err != nil {
			return fmt.Errorf("read leases of nodes: %w", err)
		}
		leases[uuid] = lease.lease()
		return nil
	}, query, asked)
	return leases, err
}

// leasesOfList and leasesOfJSON are the queries of LeasesOf. OFFSET 0 and CROSS JOIN make the
// databases find each node and each lease by its index, see matchLists.
const (
	leasesOfList = "SELECT asked.uuid, " + leaseColumns + ` FROM unnest(CAST(? AS TEXT[])) AS asked (uuid)
	CROSS JOIN LATERAL (SELECT id FROM nodes WHERE nodes.uuid = asked.uuid OFFSET 0) AS owner
	CROSS JOIN LATERAL (SELECT epoch, owner, expires_at, busy_until FROM leases WHERE leases.node_id = owner.id OFFSET 0) AS leases`
	leasesOfJSON = "SELECT nodes.uuid, " + leaseColumns + ` FROM json_each(?) AS asked
	CROSS JOIN nodes ON nodes.uuid = asked.value CROSS JOIN leases ON leases.node_id = nodes.id`
)

// AcquireLease gives the node to holder until ttl from now. It returns a *node.LockedError or a
// *node.SuspendedError when a lease is in force, whoever holds it. That includes a lease that has
// ended while a call to the machine may still be under way. Otherwise it replaces an old lease by a
// new one with a new epoch.
func (tx *Tx) AcquireLease(nodeID int64, holder string, ttl time.Duration) (node.Lease, error) {
	return tx.acquire(nodeID, node.Lease{Holder: holder, ExpiresAt: tx.Now().Add(ttl)})
}

// AcquireBusyLease is AcquireLease for a call to the machine that follows the commit. Like SetBusy, it
// stores that the call may be under way, for the time within from now, and the lease lasts at least
// for margin beyond that.
func (tx *Tx) AcquireBusyLease(nodeID int64, holder string, ttl, within, margin time.Duration) (node.Lease, error) {
	busy := time.UnixMicro(tx.Now().Add(within).UnixMicro()).UTC()
	return tx.acquire(nodeID, node.Lease{Holder: holder, ExpiresAt: tx.Now().Add(max(ttl, within+margin)), BusyUntil: busy})
}

// acquire grants a lease with these times and this holder.
func (tx *Tx) acquire(nodeID int64, lease node.Lease) (node.Lease, error) {
	if !tx.free[nodeID] { // otherwise this write has locked it
		if err := tx.lockNode("id", nodeID); err != nil {
			return node.Lease{}, err
		}
	}
	granted, err := tx.grant(nodeID, &lease)
	if err == nil && granted && tx.created != nodeID {
		// Nobody else may claim the node's work while the lease lasts.
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
	return node.Lease{}, (&node.Node{UUID: uuid, Lease: node.Lease{Holder: holder}}).Locked()
}

// grant stores a lease under a new epoch unless the node has a lease in force. If this write has
// locked the node and found no lease, there is none.
func (tx *Tx) grant(nodeID int64, lease *node.Lease) (granted bool, err error) {
	if err := tx.keepEpochs(); err != nil {
		return false, err
	}
	defer func() { tx.epochs.add(lease.Epoch) }()
	if tx.free[nodeID] {
		lease.Epoch, err = tx.insertNext("leases", "epoch", "node_id, owner, expires_at, busy_until", "?, ?, ?, ?",
			nodeID, lease.Holder, lease.ExpiresAt.UnixMicro(), micros(lease.BusyUntil))
		delete(tx.free, nodeID)
		return true, err
	}
	if err := tx.exec("DELETE FROM leases WHERE node_id = ? AND expires_at <= ?", nodeID, tx.Now().UnixMicro()); err != nil {
		return false, err
	}
	lease.Epoch, granted, err = tx.insertKey("epoch", "INSERT INTO leases (node_id, owner, expires_at, busy_until) VALUES (?, ?, ?, ?) ON CONFLICT (node_id) DO NOTHING",
		nodeID, lease.Holder, lease.ExpiresAt.UnixMicro(), micros(lease.BusyUntil))
	return granted, err
}

// grantedEpochs are the epochs that a process has got from SQLite. When a write fails, SQLite takes
// its epochs back and would grant them again, although the caller of that write may remember its
// lease.
type grantedEpochs struct {
	highest    int64
	rolledBack bool // the database may have taken the highest one back
}

func (g *grantedEpochs) add(epoch int64) {
	if g != nil {
		g.highest = max(g.highest, epoch)
	}
}

// keepEpochs makes sure that no epoch is granted twice. It is called before leases are granted.
func (tx *Tx) keepEpochs() error {
	if tx.epochs == nil || !tx.epochs.rolledBack {
		return nil
	}
	tx.epochs.rolledBack = false
	return tx.raiseEpochs(tx.epochs.highest)
}

// raiseEpochs makes SQLite grant only epochs higher than last.
func (tx *Tx) raiseEpochs(last int64) error {
	err := tx.exec("INSERT INTO sqlite_sequence (name, seq) SELECT 'leases', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'leases')")
	if err != nil {
		return err
	}
	return tx.exec("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'leases'", last)
}

// CheckLease returns node.ErrLeaseLost if the lease of this epoch has ended. Work calls it before a
// write of its own that is no checkpoint, such as the reservation of an object.
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

// SetBusy is called before a call that changes the machine is made under a lease. It stores until
// when that call may be under way, and makes the lease last at least for margin beyond that; margin
// is 0 or more. Nobody else gets the node before until, whatever becomes of the lease and its
// holder. It replaces what was stored for an earlier call.
//
// SetBusy sets the times in lease; ExpiresAt is set by the commit at the latest. If the lease has
// ended, SetBusy or the commit returns node.ErrLeaseLost.
func (tx *Tx) SetBusy(lease *node.Lease, until time.Time, margin time.Duration) error {
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

// EndBusy stores that no call to the machine is under way any more, even if the lease has ended
// meanwhile.
func (tx *Tx) EndBusy(lease *node.Lease) error {
	lease.BusyUntil = time.Time{}
	if err := tx.exec("UPDATE leases SET busy_until = NULL WHERE epoch = ?", lease.Epoch); err != nil {
		return err
	}
	return tx.exec("DELETE FROM leases WHERE epoch = ?", -lease.Epoch)
}

// EndLeaseAndBusy gives the node back after the last call to its machine has ended, even if the
// lease has ended meanwhile.
func (tx *Tx) EndLeaseAndBusy(lease node.Lease) error {
	return tx.exec("DELETE FROM leases WHERE epoch IN (?, ?)", lease.Epoch, -lease.Epoch)
}

// EndLeaseKeepBusy gives the node back, but keeps it from others until the call that SetBusy stored
// has ended. It does nothing if another lease has followed.
func (tx *Tx) EndLeaseKeepBusy(lease node.Lease) error {
	return tx.endLeasesWhere("epoch = ?", lease.Epoch)
}

// EndLeasesKeepBusy ends every lease of holder, like EndLeaseKeepBusy. A conductor calls it when it
// starts, because leases under its own name belong to a process that has ended.
func (tx *Tx) EndLeasesKeepBusy(holder string) error {
	return tx.endLeasesWhere("owner = ?", holder)
}

// callHolder replaces the holder of suspended work in a lease that remains only because a call is
// still under way.
const callHolder = "(call under way)"

// endLeasesWhere ends the leases that match a condition. A row with a negative epoch belongs to
// nobody; it only keeps others from the node while a call to its machine is under way. Another
// write may end that call, or grant a lease, between the two statements.
func (tx *Tx) endLeasesWhere(which string, arg any) error {
	now := tx.Now().UnixMicro()
	if err := tx.exec("UPDATE leases SET epoch = -epoch, expires_at = busy_until, owner = CASE owner WHEN '"+node.SuspendedHolder+"' THEN '"+callHolder+"' ELSE owner END WHERE "+
		which+" AND epoch > 0 AND busy_until > ?", arg, now); err != nil {
		return err
	}
	return tx.exec("DELETE FROM leases WHERE "+which+" AND coalesce(busy_until, 0) <= ?", arg, now)
}

// expiredAtOnce is how many expired leases one write removes at most.
const expiredAtOnce = 100

// endExpired removes expired leases, so that their work can be claimed, except those that a scope
// keeps. It skips leases that another write has locked.
func (tx *Tx) endExpired(holder string, scope WorkScope) error {
	ends, epochs := tx.notInUse(scope.InUse)
	args := []any{tx.Now().UnixMicro(), epochs}
	if scope.KeepExpired {
		ends += " AND owner = ?"
		args = append(args, holder)
	}
	return tx.exec("DELETE FROM leases WHERE epoch IN (SELECT epoch FROM leases WHERE expires_at <= ? AND "+ends+" ORDER BY expires_at LIMIT ?"+
		tx.locking(" FOR UPDATE SKIP LOCKED")+")", append(args, expiredAtOnce)...)
}

// notInUse returns the condition that a lease is none of these, and its argument. The text is the
// same for any number of leases.
func (tx *Tx) notInUse(inUse []int64) (condition string, arg any) {
	inUse = append([]int64{}, inUse...) // an empty list instead of null
	if tx.takesLists {
		return "epoch <> ALL (CAST(? AS BIGINT[]))", inUse
	}
	list, _ := json.Marshal(inUse) // numbers cannot fail
	return "epoch NOT IN (SELECT value FROM json_each(?))", string(list)
}

// renewRows is how many leases one statement renews.
const renewRows = 256

// RenewLeases extends the leases of holder to ttl from now, unless they last longer, and returns
// the epochs of lost leases, which others have ended. An expired lease that still exists is in
// force again, because nobody else has had the node. A lease that another write has locked keeps
// its time until the next renewal, so that no lease waits for another. A lease whose epoch is not
// given runs out.
func (tx *Tx) RenewLeases(holder string, epochs []int64, ttl time.Duration) (lost []int64, err error) {
	ours := "SELECT epoch FROM leases WHERE owner = ? AND epoch IN (" + marks(renewRows) + ")"
	expires := tx.Now().Add(ttl).UnixMicro()
	rest, err := withoutLeases(epochs, tx.change, "UPDATE leases SET expires_at = CASE WHEN expires_at < ? THEN ? ELSE expires_at END WHERE epoch IN ("+
		ours+tx.locking(" FOR NO KEY UPDATE SKIP LOCKED")+") RETURNING epoch", expires, expires, holder)
	if err != nil {
		return nil, err
	}
	return withoutLeases(rest, tx.query, ours, holder)
}

// withoutLeases runs a query whose last arguments are renewRows epochs, for all of these epochs,
// and returns the epochs that the query did not return.
func withoutLeases(epochs []int64, run func(scan func(row) error, query string, args ...any) error, query string, args ...any) ([]int64, error) {
	found := make(map[int64]bool, len(epochs))
	for some := range slices.Chunk(epochs, renewRows) {
		all := slices.Clone(args)
		for i := range renewRows { // always the same number, for a single prepared statement
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
