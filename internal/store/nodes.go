package store

import (
	"cmp"
	"database/sql"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

var nodeTable = newTable("nodes", nodeColumns())

func nodeColumns() []column[node.Node] {
	type n = node.Node
	columns := []column[n]{
		intColumn("id", func(n *n) *int64 { return &n.ID }),
		requiredTextColumn("uuid", func(n *n) *string { return &n.UUID }),
		textColumn("name", func(n *n) *string { return &n.Name }),
		requiredTextColumn("driver", func(n *n) *string { return &n.Driver }),
		objectColumn("driver_info", func(n *n) *node.Object { return &n.DriverInfo }),
		objectColumn("driver_internal_info", func(n *n) *node.Object { return &n.DriverInternalInfo }),
		objectColumn("properties", func(n *n) *node.Object { return &n.Properties }),
		objectColumn("extra", func(n *n) *node.Object { return &n.Extra }),
		objectColumn("instance_info", func(n *n) *node.Object { return &n.InstanceInfo }),
		textColumn("instance_uuid", func(n *n) *string { return &n.InstanceUUID }),
		textColumn("instance_name", func(n *n) *string { return &n.InstanceName }),
		objectColumn("network_data", func(n *n) *node.Object { return &n.NetworkData }),
		textColumn("power_state", func(n *n) *node.PowerState { return &n.PowerState }),
		textColumn("target_power_state", func(n *n) *node.PowerState { return &n.TargetPowerState }),
		requiredTextColumn("provision_state", func(n *n) *node.State { return &n.ProvisionState }),
		textColumn("target_provision_state", func(n *n) *node.State { return &n.TargetProvisionState }),
		timeColumn("provision_updated_at", func(n *n) *time.Time { return &n.ProvisionUpdatedAt }),
		textColumn("last_error", func(n *n) *string { return &n.LastError }),
		boolColumn("maintenance", func(n *n) *bool { return &n.Maintenance }),
		textColumn("maintenance_reason", func(n *n) *string { return &n.MaintenanceReason }),
		textColumn("fault", func(n *n) *string { return &n.Fault }),
		textColumn("health", func(n *n) *string { return &n.Health }),
		boolColumn("console_enabled", func(n *n) *bool { return &n.ConsoleEnabled }),
		timeColumn("inspection_started_at", func(n *n) *time.Time { return &n.InspectionStartedAt }),
		timeColumn("inspection_finished_at", func(n *n) *time.Time { return &n.InspectionFinishedAt }),
		objectColumn("clean_step", func(n *n) *node.Object { return &n.CleanStep }),
		objectColumn("deploy_step", func(n *n) *node.Object { return &n.DeployStep }),
		objectColumn("service_step", func(n *n) *node.Object { return &n.ServiceStep }),
		objectColumn("raid_config", func(n *n) *node.Object { return &n.RAIDConfig }),
		objectColumn("target_raid_config", func(n *n) *node.Object { return &n.TargetRAIDConfig }),
		textColumn("traits", func(n *n) *node.Words { return &n.Traits }),
		textColumn("resource_class", func(n *n) *string { return &n.ResourceClass }),
		textColumn("conductor_group", func(n *n) *string { return &n.ConductorGroup }),
		optionalBoolColumn("automated_clean", func(n *n) **bool { return &n.AutomatedClean }),
		boolColumn("protected", func(n *n) *bool { return &n.Protected }),
		textColumn("protected_reason", func(n *n) *string { return &n.ProtectedReason }),
		boolColumn("retired", func(n *n) *bool { return &n.Retired }),
		textColumn("retired_reason", func(n *n) *string { return &n.RetiredReason }),
		textColumn("owner", func(n *n) *string { return &n.Owner }),
		textColumn("lessee", func(n *n) *string { return &n.Lessee }),
		textColumn("description", func(n *n) *string { return &n.Description }),
		textColumn("allocation_uuid", func(n *n) *string { return &n.AllocationUUID }),
		textColumn("chassis_uuid", func(n *n) *string { return &n.ChassisUUID }),
		textColumn("boot_mode", func(n *n) *string { return &n.BootMode }),
		optionalBoolColumn("secure_boot", func(n *n) **bool { return &n.SecureBoot }),
		textColumn("shard", func(n *n) *string { return &n.Shard }),
		textColumn("parent_node", func(n *n) *string { return &n.ParentNode }),
		boolColumn("disable_power_off", func(n *n) *bool { return &n.DisablePowerOff }),
		boolColumn("auto_discovered", func(n *n) *bool { return &n.AutoDiscovered }),
		timeColumn("created_at", func(n *n) *time.Time { return &n.CreatedAt }),
		timeColumn("updated_at", func(n *n) *time.Time { return &n.UpdatedAt }),
	}
	for kind := range node.InterfaceCount {
		columns = append(columns, textColumn(kind.Field(), func(n *n) *string { return &n.Interfaces[kind] }))
	}
	return columns
}

// selectNodes reads nodes together with their leases.
var selectNodes = "SELECT " + nodeTable.list + ", leases.epoch, leases.owner, leases.expires_at FROM nodes"

// Node returns the node with this UUID or name, or a *node.NotFoundError.
func (tx *Tx) Node(ident string) (*node.Node, error) {
	n, err := tx.nodeWhere("uuid = ?", ident)
	if err == nil && n == nil {
		n, err = tx.nodeWhere("name = ?", ident)
	}
	if err == nil && n == nil {
		err = &node.NotFoundError{Kind: "Node", Ident: ident}
	}
	return n, err
}

// NodeKey returns the key and the UUID of the node with this UUID or name, and
// nothing else of it, or a *node.NotFoundError.
func (tx *Tx) NodeKey(ident string) (id int64, uuid string, err error) {
	for _, column := range []string{"uuid", "name"} {
		var found bool
		found, err = tx.one("SELECT id, uuid FROM nodes WHERE "+column+" = ?", []any{ident}, &id, &uuid)
		if found || err != nil {
			return id, uuid, err
		}
	}
	return 0, "", &node.NotFoundError{Kind: "Node", Ident: ident}
}

// NodeByID returns the node with this key, or a *node.NotFoundError.
func (tx *Tx) NodeByID(id int64) (*node.Node, error) {
	n, err := tx.nodeWhere("id = ?", id)
	if err == nil && n == nil {
		err = &node.NotFoundError{Kind: "Node", Ident: "of deleted work"}
	}
	return n, err
}

// nodeWhere returns the first node that fits, nil when there is none.
func (tx *Tx) nodeWhere(condition string, args ...any) (*node.Node, error) {
	nodes, err := tx.nodes(" WHERE "+condition+" LIMIT 1", args)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	return nodes[0], nil
}

// Nodes returns the page of nodes that the query asks for.
func (tx *Tx) Nodes(q node.Query) ([]*node.Node, error) {
	tail, args, err := pageClause(tx, nodeTable.name, q, nodeTable.column)
	if err != nil {
		return nil, err
	}
	if q.Brief {
		return tx.briefNodes(tail, args)
	}
	return tx.nodes(tail, args)
}

// briefNodeTable has the columns of a short list, which costs less than half of
// reading all.
var briefNodeTable = nodeTable.part("id", "uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance")

func (tx *Tx) briefNodes(tail string, args []any) ([]*node.Node, error) {
	scan := briefNodeTable.scanner()
	nodes := []*node.Node{}
	err := tx.query(func(rows row) error {
		n, err := scan(rows)
		nodes = append(nodes, n)
		return err
	}, "SELECT "+briefNodeTable.list+" FROM nodes"+tail, args...)
	return nodes, err
}

func (tx *Tx) nodes(tail string, args []any) ([]*node.Node, error) {
	var epoch, expires sql.NullInt64
	var owner sql.NullString
	scan := nodeTable.scanner(&epoch, &owner, &expires)
	nodes := []*node.Node{}
	err := tx.query(func(rows row) error {
		n, err := scan(rows)
		if err != nil {
			return err
		}
		if epoch.Valid {
			n.Lease = node.Lease{Owner: owner.String, Epoch: epoch.Int64, ExpiresAt: time.UnixMicro(expires.Int64).UTC()}
		}
		nodes = append(nodes, n)
		return nil
	}, selectNodes+" LEFT JOIN leases ON leases.node_id = nodes.id"+tail, args...)
	return nodes, err
}

// CreateNode stores a new node and sets its key and creation time. A UUID, name
// or instance UUID that is taken is a *node.ConflictError.
func (tx *Tx) CreateNode(n *node.Node) error {
	n.CreatedAt = tx.now.Truncate(time.Microsecond).UTC()
	id, err := nodeTable.insert(tx, n)
	if errors.Is(err, errTaken) {
		return cmp.Or(tx.unique(n, 0), err)
	}
	if err != nil {
		return err
	}
	n.ID = id
	return nil
}

// UpdateNode stores what changed between before and after, and sets
// after.UpdatedAt when anything did.
func (tx *Tx) UpdateNode(before, after *node.Node) error {
	if before.Name != after.Name || before.InstanceUUID != after.InstanceUUID {
		if err := tx.unique(after, before.ID); err != nil {
			return err
		}
	}
	if !nodeTable.changed(before, after) {
		after.UpdatedAt = before.UpdatedAt
		return nil
	}
	after.UpdatedAt = tx.now.Truncate(time.Microsecond).UTC()
	_, err := nodeTable.update(tx, before.ID, before, after)
	return err
}

// DeleteNode removes the node and everything that belongs to it.
func (tx *Tx) DeleteNode(id int64) error {
	err := tx.exec("DELETE FROM inventories WHERE node_id = ?", id)
	if err == nil {
		err = tx.exec("DELETE FROM nodes WHERE id = ?", id)
	}
	return err
}

// ReleaseChildren makes the nodes that are part of another one stand by themselves.
func (tx *Tx) ReleaseChildren(parentUUID string) error {
	err := tx.exec("UPDATE nodes SET parent_node = NULL, updated_at = ? WHERE parent_node = ?", tx.now.UnixMicro(), parentUUID)
	return err
}

// DiscoveredAfter returns how many nodes with a key above id were enrolled by
// auto-discovery, and the highest of their keys, which is id when there are none.
// Keys grow in the order of commits, so that nobody has to count twice.
func (tx *Tx) DiscoveredAfter(id int64) (count int, last int64, err error) {
	_, err = tx.one("SELECT count(*), coalesce(max(id), 0) FROM nodes WHERE auto_discovered = 1 AND id > ?", []any{id}, &count, &last)
	return count, max(last, id), err
}

// unique refuses a UUID, name or instance UUID that another node has.
func (tx *Tx) unique(n *node.Node, self int64) error {
	for _, check := range []struct{ column, value, text string }{
		{"uuid", n.UUID, "A node with UUID %s already exists."},
		{"name", n.Name, "A node with name %s already exists."},
		{"instance_uuid", n.InstanceUUID, "Instance %s is already associated with another node: it can be on one node only."},
	} {
		if check.value == "" {
			continue
		}
		var id int64
		found, err := tx.one("SELECT id FROM nodes WHERE "+check.column+" = ? AND id <> ?", []any{check.value, self}, &id)
		if err != nil {
			return err
		}
		if found {
			return node.Conflict(check.text, check.value)
		}
	}
	return nil
}
