package store

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

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
		boolColumn("provisional", func(n *n) *bool { return &n.Provisional }),
		timeColumn("created_at", func(n *n) *time.Time { return &n.CreatedAt }),
		timeColumn("updated_at", func(n *n) *time.Time { return &n.UpdatedAt }),
	}
	for kind := range node.InterfaceCount {
		columns = append(columns, textColumn(kind.Field(), func(n *n) *string { return &n.Interfaces[kind] }))
	}
	return columns
}

// identColumns returns the columns in which to search for an ident that a client gave, the likelier
// one first.
func identColumns(ident string) []string {
	if uuid.Validate(ident) == nil {
		return []string{"uuid", "name"}
	}
	return []string{"name", "uuid"}
}

// Node returns the node with this UUID or name, or a *node.NotFoundError. In a write, nobody else
// can change the node, its lease or its records before the commit.
func (tx *Tx) Node(ident string) (*node.Node, error) { return tx.findNode(nodeTable, ident) }

// deletedNodeTable has the columns that decide whether a node may be deleted.
var deletedNodeTable = nodeTable.part("id", "uuid", "provision_state", "instance_uuid", "maintenance", "protected", "auto_discovered")

// NodeToDelete is Node with only the lease and the fields that decide whether the node may be
// deleted.
func (tx *Tx) NodeToDelete(ident string) (*node.Node, error) {
	return tx.findNode(deletedNodeTable, ident)
}

// agentNodeTable has the columns that decide what the node's agent is answered.
var agentNodeTable = nodeTable.part(
	"id", "uuid", "driver", "driver_info", "driver_internal_info", "provision_state", "auto_discovered",
	"clean_step", "deploy_step", "service_step",
)

// NodeOfAgent is Node with only the lease and the fields that decide whether the node's agent may
// look it up, gets a token and may send heartbeats.
func (tx *Tx) NodeOfAgent(ident string) (*node.Node, error) {
	return tx.findNode(agentNodeTable, ident)
}

func (tx *Tx) findNode(columns *table[node.Node], ident string) (*node.Node, error) {
	for _, column := range identColumns(ident) {
		if n, err := tx.lockedNode(columns, column, ident); n != nil || err != nil {
			return n, err
		}
	}
	return nil, &node.NotFoundError{Kind: "Node", Ident: ident}
}

// NodeKey is what a record needs to know of the node that it belongs to.
type NodeKey struct {
	ID          int64
	UUID        string
	Provisional bool
}

// NodeKey returns the key of the node with this UUID or name, or a
// *node.NotFoundError. In a write it locks like Node.
func (tx *Tx) NodeKey(ident string) (NodeKey, error) {
	for _, column := range identColumns(ident) {
		if err := tx.lockNode(column, ident); err != nil {
			return NodeKey{}, err
		}
		var key NodeKey
		var provisional int64
		found, err := tx.one("SELECT id, uuid, provisional FROM nodes WHERE "+column+" = ?", []any{ident}, &key.ID, &key.UUID, &provisional)
		if found || err != nil {
			key.Provisional = provisional != 0
			return key, err
		}
	}
	return NodeKey{}, &node.NotFoundError{Kind: "Node", Ident: ident}
}

// NodeByID returns the node with this key, or a *node.NotFoundError. In a write it
// locks like Node.
func (tx *Tx) NodeByID(id int64) (*node.Node, error) {
	n, err := tx.lockedNode(nodeTable, "id", id)
	if err == nil && n == nil {
		err = &node.NotFoundError{Kind: "Node", Ident: "of deleted work"}
	}
	return n, err
}

// lockedNode returns the node whose column has the value, nil when there is none. In a write it
// locks the node.
func (tx *Tx) lockedNode(columns *table[node.Node], column string, value any) (*node.Node, error) {
	if err := tx.lockNode(column, value); err != nil {
		return nil, err
	}
	var keys reservedKeys
	var more string
	var into []any
	reserves := tx.shared != nil && tx.expectsWork
	if reserves {
		tx.expectsWork, more, into = false, ", "+nextKeys, keys.targets()
	}
	nodes, err := tx.selectNodesAnd(more, into, columns, 0, " WHERE "+column+" = ? LIMIT 1", []any{value})
	n := first(nodes)
	if n != nil && reserves {
		tx.shared.keys = keys.byTable()
	}
	if n != nil && tx.beforeChange != nil {
		tx.markFree(n.ID, n.Lease.Epoch == 0)
	}
	return n, err
}

// markFree notes whether a node that this write has locked has a lease.
func (tx *Tx) markFree(nodeID int64, free bool) {
	if tx.free == nil {
		tx.free = map[int64]bool{}
	}
	tx.free[nodeID] = free
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
	return tx.selectNodes(nodeTable, q.MaxBytes, tail, args)
}

// briefNodeTable has the columns of a short list. Reading them costs less than half of reading all
// columns.
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
	return tx.selectNodes(nodeTable, 0, tail, args)
}

// selectNodes reads the columns of a table of nodes together with their leases. For
// maxBytes see table.pageScanner.
func (tx *Tx) selectNodes(columns *table[node.Node], maxBytes int, tail string, args []any) ([]*node.Node, error) {
	return tx.selectNodesAnd("", nil, columns, maxBytes, tail, args)
}

// selectNodesAnd is selectNodes for one node, with more result columns that are read into targets.
func (tx *Tx) selectNodesAnd(more string, targets []any, columns *table[node.Node], maxBytes int, tail string, args []any) ([]*node.Node, error) {
	var lease leaseRow
	scan := columns.pageScanner(maxBytes, append(lease.targets(), targets...)...)
	nodes := []*node.Node{}
	err := tx.query(func(rows row) error {
		n, err := scan(rows)
		if err != nil {
			return err
		}
		n.Lease = lease.lease()
		nodes = append(nodes, n)
		return nil
	}, "SELECT "+columns.list+", "+leaseColumns+more+" FROM nodes LEFT JOIN leases ON leases.node_id = nodes.id"+tail, args...)
	return nodes, err
}

// freeNode is node.Allocatable as an SQL condition, worded to match an index.
const freeNode = " AND nodes.provision_state = 'available' AND nodes.instance_uuid IS NULL AND nodes.maintenance = 0 AND nodes.retired = 0"

// AllocationCandidates returns up to limit nodes that an allocation may choose from: the node of
// its name, if that one is suitable, and others. The search for others begins at a random place, so
// that simultaneous requests do not all get the same nodes. When work has locked every suitable
// node, it returns one of them.
func (tx *Tx) AllocationCandidates(a *node.Allocation, limit int) ([]*node.Node, error) {
	where, args := " WHERE nodes.resource_class = ?"+freeNode, []any{a.ResourceClass}
	for trait := range strings.SplitSeq(string(a.Traits), ",") {
		if trait != "" {
			where += " AND (',' || nodes.traits || ',') LIKE ? ESCAPE '\\'"
			args = append(args, "%,"+likeEscaper.Replace(trait)+",%")
		}
	}
	if candidates := a.CandidateNodes.List(); len(candidates) > 0 {
		where += " AND nodes.uuid IN (" + marks(len(candidates)) + ")"
		for _, uuid := range candidates {
			args = append(args, uuid)
		}
	}
	if a.Owner != "" {
		where += " AND (nodes.owner = ? OR nodes.lessee = ?)"
		args = append(args, a.Owner, a.Owner)
	}
	var last int64
	if _, err := tx.one("SELECT coalesce(max(id), 0) FROM nodes WHERE nodes.resource_class = ?"+freeNode, []any{a.ResourceClass}, &last); err != nil {
		return nil, err
	}
	from := rand.Int64N(last + 1) //nolint:gosec // it only spreads the choice
	unleased, now := " AND NOT EXISTS (SELECT 1 FROM leases AS held WHERE held.node_id = nodes.id AND held.expires_at > ?)", tx.Now().UnixMicro()
	var found []*node.Node
	for _, search := range []struct {
		wanted    bool
		condition string
		args      []any
	}{
		{a.Name != "", " AND nodes.name = ?" + unleased, []any{a.Name, now}},
		{true, " AND nodes.id >= ?" + unleased, []any{from, now}},
		{true, " AND nodes.id < ?" + unleased, []any{from, now}},
	} {
		left := limit - len(found)
		if left <= 0 || !search.wanted {
			continue
		}
		nodes, err := tx.nodes(where+search.condition+" ORDER BY nodes.id LIMIT ?", slices.Concat(args, search.args, []any{left}))
		if err != nil {
			return nil, err
		}
		found = append(found, nodes...)
	}
	if len(found) > 0 {
		return found, nil
	}
	return tx.nodes(where+" ORDER BY nodes.id LIMIT 1", args)
}

// CreateNode stores a new node and sets its key and creation time. A UUID, name
// or instance UUID that is taken is a *node.ConflictError.
func (tx *Tx) CreateNode(n *node.Node) error {
	n.CreatedAt = tx.Now().Truncate(time.Microsecond).UTC()
	if tx.shared != nil {
		tx.shared.reserve("nodes") // for the rows that follow a new node
	}
	id, err := nodeTable.insert(tx, n)
	if errors.Is(err, errTaken) {
		return cmp.Or(tx.unique(n, 0), err)
	}
	if err != nil {
		return err
	}
	n.ID, tx.created = id, id
	tx.note.created(n)
	tx.markFree(id, true)
	return nil
}

// UpdateNode stores the changes from before to after. If there are any, it sets after.UpdatedAt.
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
	after.UpdatedAt = tx.Now().Truncate(time.Microsecond).UTC()
	tx.note.updated(before, after)
	_, err := nodeTable.update(tx, before, after, "id = ?", before.ID)
	return err
}

// DeleteNode removes a node and everything that belongs to it. Its child nodes stay, without a
// parent.
func (tx *Tx) DeleteNode(n *node.Node) error {
	if err := tx.releaseChildren(n.UUID); err != nil {
		return err
	}
	return tx.exec("DELETE FROM nodes WHERE id = ?", n.ID)
}

func (tx *Tx) releaseChildren(parentUUID string) error {
	if tx.shared == nil { // SQLite's UPDATE opens each index of the table, even if it finds no row
		if found, err := tx.one("SELECT 1 FROM nodes WHERE parent_node = ? LIMIT 1", []any{parentUUID}, new(int64)); err != nil || !found {
			return err
		}
	}
	return tx.exec("UPDATE nodes SET parent_node = NULL, updated_at = ? WHERE parent_node = ?", tx.Now().UnixMicro(), parentUUID)
}

// Discovered tells how many nodes auto-discovery enrolled.
type Discovered struct {
	Count int   // nodes with a key above the given one, up to Last
	Last  int64 // no further node can get a key up to this one
	Newer int   // with keys above Last, where more nodes may still appear
}

// DiscoveredAfter counts the nodes with a key above id that auto-discovery has enrolled. A later
// call can begin at Last, so that no node is counted twice.
func (tx *Tx) DiscoveredAfter(id int64) (found Discovered, err error) {
	_, err = tx.one(`WITH committed AS MATERIALIZED (SELECT coalesce(max(id), 0) AS last FROM nodes WHERE auto_discovered = 1 AND id > ? AND created_at <= ?)
		SELECT coalesce(sum(CASE WHEN nodes.id <= committed.last THEN 1 ELSE 0 END), 0), count(*), coalesce(max(committed.last), 0)
		FROM nodes, committed WHERE nodes.auto_discovered = 1 AND nodes.id > ?`,
		[]any{id, tx.Now().Add(-tx.lateCommit).UnixMicro(), id}, &found.Count, &found.Newer, &found.Last)
	found.Newer -= found.Count
	found.Last = max(found.Last, id)
	return found, err
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
