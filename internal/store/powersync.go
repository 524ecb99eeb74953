package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// The synchronization of power states keeps the fields that it needs of each node in memory and
// reads only changes. It never reads whole nodes, and reads all nodes only if it must.

// powerNodeTable has the columns that are needed to read a machine's power state and to decide what
// follows.
var powerNodeTable = nodeTable.part(
	"id", "uuid", "driver", "driver_info", "power_state", "target_power_state", "provision_state", "maintenance", "fault",
	"conductor_group", "disable_power_off", "created_at", "updated_at",
	node.BootInterface.Field(), node.ManagementInterface.Field(), node.PowerInterface.Field(), node.VendorInterface.Field(),
)

// NodeVersion says when a node last changed.
type NodeVersion struct {
	ID      int64
	Updated time.Time // zero for a node that never changed
	Held    bool      // somebody works on the node, or a call may be under way; only PowerVersions sets it
}

// NodeVersions returns the version of every node, in no particular order.
func (tx *Tx) NodeVersions() ([]NodeVersion, error) {
	var versions []NodeVersion
	err := tx.query(func(r row) error {
		var v NodeVersion
		var updated int64
		if err := r.Scan(&v.ID, &updated); err != nil {
			return fmt.Errorf("read versions of nodes: %w", err)
		}
		v.Updated = changedAt(updated)
		versions = append(versions, v)
		return nil
	}, "SELECT id, coalesce(updated_at, 0) FROM nodes")
	return versions, err
}

// changedAt converts a stored time of change, where 0 stands for null.
func changedAt(updated int64) time.Time {
	if updated == 0 {
		return time.Time{}
	}
	return time.UnixMicro(updated).UTC()
}

// selectPowerVersions looks up each lease by itself. Reading all leases is slow while work is
// running on many nodes.
var selectPowerVersions = `SELECT id, coalesce(updated_at, 0),
	(SELECT count(*) FROM leases WHERE leases.node_id = nodes.id AND (leases.expires_at > ? AND leases.owner <> '` + node.SuspendedHolder + `' OR leases.busy_until > ?))
	FROM nodes WHERE id IN (` + marks(maxRows) + ")"

// PowerVersions returns the versions of those nodes with these keys that exist, and whether
// somebody works on them.
func (tx *Tx) PowerVersions(ids []int64) (map[int64]NodeVersion, error) {
	versions := make(map[int64]NodeVersion, len(ids))
	now := tx.Now().UnixMicro()
	err := eachKeys(ids, func(keys []any) error {
		return tx.query(func(r row) error {
			var v NodeVersion
			var updated, leases int64
			if err := r.Scan(&v.ID, &updated, &leases); err != nil {
				return fmt.Errorf("read versions of nodes: %w", err)
			}
			v.Updated, v.Held = changedAt(updated), leases > 0
			versions[v.ID] = v
			return nil
		}, selectPowerVersions, append([]any{now, now}, keys...)...)
	})
	return versions, err
}

// eachKeys calls do with the keys in chunks. It fills the last chunk up by repeating a key, so that
// all chunks use the same statement.
func eachKeys(ids []int64, do func([]any) error) error {
	for some := range slices.Chunk(ids, maxRows) {
		keys := make([]any, maxRows)
		for i := range keys {
			keys[i] = some[min(i, len(some)-1)]
		}
		if err := do(keys); err != nil {
			return err
		}
	}
	return nil
}

// PowerNodes returns those nodes with these keys that exist, with only the fields of powerNodeTable
// set. The lease is not set.
func (tx *Tx) PowerNodes(ids []int64) ([]*node.Node, error) {
	var nodes []*node.Node
	err := eachKeys(ids, func(keys []any) error {
		some, err := tx.powerNodes(" WHERE id IN ("+marks(maxRows)+")", keys...)
		nodes = append(nodes, some...)
		return err
	})
	return nodes, err
}

// PowerNodesSince returns, like PowerNodes, the nodes that changed at or after a time, and the
// nodes with a key above the given one. It returns up to limit nodes of either kind. Whole is false
// when it has reached limit, so that others may be missing.
func (tx *Tx) PowerNodesSince(changed time.Time, key int64, limit int) (nodes []*node.Node, whole bool, err error) {
	updated, err := tx.powerNodes(" WHERE updated_at >= ? ORDER BY updated_at NULLS FIRST, id LIMIT ?", changed.UnixMicro(), limit)
	if err != nil {
		return nil, false, err
	}
	created, err := tx.powerNodes(" WHERE id > ? ORDER BY id LIMIT ?", key, limit)
	return append(updated, created...), len(updated) < limit && len(created) < limit, err
}

func (tx *Tx) powerNodes(tail string, args ...any) ([]*node.Node, error) {
	return tx.partialNodes(powerNodeTable, tail, args...)
}

// partialNodes returns nodes with the columns of a part of their table alone.
func (tx *Tx) partialNodes(part *table[node.Node], tail string, args ...any) ([]*node.Node, error) {
	scan := part.scanner()
	var nodes []*node.Node
	err := tx.query(func(r row) error {
		n, err := scan(r)
		nodes = append(nodes, n)
		return err
	}, "SELECT "+part.list+" FROM nodes"+tail, args...)
	return nodes, err
}
