package store

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// A lease that belongs to nobody suspends the work of its node. Everything that respects leases
// respects it. These leases end with the suspension.

// endless is when a lease of suspended work expires, in microseconds since 1970: in the year 2255.
const endless = 9_000_000_000_000_000

// suspensionName is the name for LockName in writes that begin or end a suspension.
const suspensionName = "suspension"

// Suspension returns the suspension. It does not set the numbers of nodes.
func (tx *Tx) Suspension() (node.Suspension, error) {
	var reason, detail sql.NullString
	var since, ended sql.NullInt64
	found, err := tx.one("SELECT reason, detail, since, ended_at FROM suspension WHERE id = 1", nil, &reason, &detail, &since, &ended)
	if !found || err != nil {
		return node.Suspension{}, err
	}
	return node.Suspension{
		Reason: node.SuspensionReason(reason.String), Detail: detail.String, Since: timeOf(since), Ended: timeOf(ended),
	}, nil
}

func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

// Suspend suspends all work that is not running, and returns it. Work that runs under a lease goes
// on. If a node is blocked because a call of its last holder is still under way, it stays blocked
// until both the call and the suspension have ended.
//
// A suspension that is in force stays as it is, and began is false, with one exception: the reason
// that the database was restored replaces any other reason, and then no lease in the database
// counts.
func (tx *Tx) Suspend(reason node.SuspensionReason, detail string) (suspended []*Work, began bool, err error) {
	if err := tx.LockName(suspensionName); err != nil {
		return nil, false, err
	}
	present, err := tx.Suspension()
	if err != nil || present.InForce() && reason != node.Restored {
		return nil, false, err
	}
	now := tx.Now().UnixMicro()
	err = tx.exec(`INSERT INTO suspension (id, reason, detail, since) VALUES (1, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET reason = excluded.reason, detail = excluded.detail, since = excluded.since`,
		string(reason), detail, now)
	if err != nil {
		return nil, false, err
	}
	if reason == node.Restored {
		err = tx.endAllLeases()
	} else {
		err = tx.exec("DELETE FROM leases WHERE expires_at <= ? AND coalesce(busy_until, 0) <= ?", now, now)
	}
	if err != nil {
		return nil, false, err
	}
	if err := tx.lock("SELECT id FROM nodes WHERE id IN (SELECT node_id FROM work WHERE epoch IS NULL) ORDER BY id FOR NO KEY UPDATE"); err != nil {
		return nil, false, err
	}
	if err := tx.keepEpochs(); err != nil {
		return nil, false, err
	}
	for _, statement := range []string{
		`INSERT INTO leases (node_id, owner, expires_at) SELECT DISTINCT node_id, '` + node.SuspendedHolder + `', CAST(? AS BIGINT) FROM work WHERE epoch IS NULL
			ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, expires_at = excluded.expires_at WHERE leases.epoch < 0`,
		`UPDATE work SET epoch = (SELECT epoch FROM leases WHERE leases.node_id = work.node_id) WHERE epoch IS NULL
			AND node_id IN (SELECT node_id FROM leases WHERE owner = '` + node.SuspendedHolder + `' AND expires_at = ?)`,
	} {
		if err := tx.exec(statement, endless); err != nil {
			return nil, false, err
		}
	}
	suspended, err = tx.SuspendedWork()
	return suspended, true, err
}

// endAllLeases ends every lease, because the holders do not work on this state of the database. It
// keeps nodes blocked while calls to their machines are under way. It also raises the epochs, so
// that no lease gets an epoch that was granted after this state: the time in milliseconds is higher
// than any epoch ever granted.
func (tx *Tx) endAllLeases() error {
	if err := tx.endLeasesWhere("epoch <> ?", 0); err != nil {
		return err
	}
	floor := tx.Now().UnixMilli()
	if tx.shared != nil {
		return tx.exec("SELECT setval('leases_epoch_seq', greatest(nextval('leases_epoch_seq'), ?::bigint))", floor)
	}
	return tx.raiseEpochs(floor)
}

// ofSuspended is the condition that a node's work is suspended.
const ofSuspended = " IN (SELECT node_id FROM leases WHERE owner = '" + node.SuspendedHolder + "')"

// SuspendedWork returns all suspended work with the UUIDs of the nodes, ordered by node and then by
// age, the oldest first. In a write, nobody else can change these nodes before the commit.
func (tx *Tx) SuspendedWork() ([]*Work, error) {
	if err := tx.lock("SELECT id FROM nodes WHERE id" + ofSuspended + " ORDER BY id FOR NO KEY UPDATE"); err != nil {
		return nil, err
	}
	var works []*Work
	err := tx.query(func(r row) error {
		var uuid string
		w, err := scanWork(r, &uuid)
		if err != nil {
			return err
		}
		w.NodeUUID = uuid
		works = append(works, w)
		return nil
	}, "SELECT "+workColumns+", nodes.uuid FROM work JOIN nodes ON nodes.id = work.node_id WHERE work.node_id"+ofSuspended+" ORDER BY work.node_id, work.id")
	return works, err
}

// EndSuspension makes all suspended work claimable, and removes which machines differ. Nodes that
// wait for their ramdisks begin their wait anew.
func (tx *Tx) EndSuspension() error {
	if err := tx.LockName(suspensionName); err != nil {
		return err
	}
	now := tx.Now().UnixMicro()
	if err := tx.exec("UPDATE nodes SET provision_updated_at = ?, updated_at = ? WHERE provision_state IN ("+waitingStates+") AND id"+ofSuspended, now, now); err != nil {
		return err
	}
	if err := tx.endLeasesWhere("owner = ?", node.SuspendedHolder); err != nil {
		return err
	}
	if err := tx.exec("DELETE FROM power_differences"); err != nil {
		return err
	}
	return tx.exec("UPDATE suspension SET reason = NULL, detail = NULL, since = NULL, ended_at = ? WHERE id = 1", now)
}

// waitingStates is the SQL list of the states in which a node waits for its ramdisk.
var waitingStates = func() (list string) {
	for _, state := range node.States() {
		if state.Class() == node.Waiting {
			list += ", '" + string(state) + "'"
		}
	}
	return list[2:]
}()

// CountSuspended returns the number of nodes with suspended work, and the number of machines that
// differ from their nodes.
func (tx *Tx) CountSuspended() (nodes, differing int, err error) {
	_, err = tx.one("SELECT (SELECT count(*) FROM leases WHERE owner = '"+node.SuspendedHolder+"'), (SELECT count(*) FROM power_differences)", nil,
		&nodes, &differing)
	return nodes, differing, err
}

// SuspendedNodes returns the nodes that wait for a person's decision, in order of creation.
func (tx *Tx) SuspendedNodes() ([]*node.SuspendedNode, error) {
	var nodes []*node.SuspendedNode
	err := tx.query(func(r row) error {
		n := &node.SuspendedNode{}
		var name, power, kind, observed sql.NullString
		var at sql.NullInt64
		if err := r.Scan(&n.UUID, &name, &n.ProvisionState, &power, &kind, &observed, &at); err != nil {
			return fmt.Errorf("read suspended nodes: %w", err)
		}
		if last := len(nodes) - 1; last >= 0 && nodes[last].UUID == n.UUID { // the same node with more work
			nodes[last].Work = append(nodes[last].Work, kind.String)
			return nil
		}
		n.Name, n.PowerState, n.Observed, n.ObservedAt = name.String, node.PowerState(power.String), node.PowerState(observed.String), timeOf(at)
		if kind.Valid {
			n.Work = []string{kind.String}
		}
		nodes = append(nodes, n)
		return nil
	}, `SELECT nodes.uuid, nodes.name, nodes.provision_state, nodes.power_state, work.kind, power_differences.observed, power_differences.observed_at
		FROM nodes LEFT JOIN leases ON leases.node_id = nodes.id AND leases.owner = '`+node.SuspendedHolder+`'
		LEFT JOIN work ON work.node_id = leases.node_id LEFT JOIN power_differences ON power_differences.node_id = nodes.id
		WHERE nodes.id IN (SELECT node_id FROM leases WHERE owner = '`+node.SuspendedHolder+`' UNION ALL SELECT node_id FROM power_differences)
		ORDER BY nodes.id, work.id`)
	return nodes, err
}

// NotePowerDifference notes that a machine was seen in another power state than its node has. News
// reports whether this was not noted before.
func (tx *Tx) NotePowerDifference(nodeID int64, observed node.PowerState) (news bool, err error) {
	var before string
	found, err := tx.one("SELECT observed FROM power_differences WHERE node_id = ?", []any{nodeID}, &before)
	if err != nil || found && before == string(observed) {
		return false, err
	}
	return true, tx.exec(`INSERT INTO power_differences (node_id, observed, observed_at) VALUES (?, ?, ?)
		ON CONFLICT (node_id) DO UPDATE SET observed = excluded.observed, observed_at = excluded.observed_at`,
		nodeID, string(observed), tx.Now().UnixMicro())
}

// DropPowerDifference removes the note of NotePowerDifference.
func (tx *Tx) DropPowerDifference(nodeID int64) error {
	return tx.exec("DELETE FROM power_differences WHERE node_id = ?", nodeID)
}

// PowerDifferences returns the power states that NotePowerDifference noted, by the keys of the
// nodes.
func (tx *Tx) PowerDifferences() (map[int64]node.PowerState, error) {
	differences := map[int64]node.PowerState{}
	err := tx.query(func(r row) error {
		var id int64
		var observed node.PowerState
		err := r.Scan(&id, &observed)
		differences[id] = observed
		return err
	}, "SELECT node_id, observed FROM power_differences")
	return differences, err
}
