package store

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

var portTable = newTable("ports", portColumns())

func portColumns() []column[node.Port] {
	type p = node.Port
	return []column[p]{
		intColumn("id", func(p *p) *int64 { return &p.ID }),
		requiredTextColumn("uuid", func(p *p) *string { return &p.UUID }),
		intColumn("node_id", func(p *p) *int64 { return &p.NodeID }),
		requiredTextColumn("address", func(p *p) *string { return &p.Address }),
		textColumn("name", func(p *p) *string { return &p.Name }),
		textColumn("description", func(p *p) *string { return &p.Description }),
		textColumn("vendor", func(p *p) *string { return &p.Vendor }),
		textColumn("category", func(p *p) *string { return &p.Category }),
		textColumn("portgroup_uuid", func(p *p) *string { return &p.PortgroupUUID }),
		boolColumn("pxe_enabled", func(p *p) *bool { return &p.PXEEnabled }),
		textColumn("physical_network", func(p *p) *string { return &p.PhysicalNetwork }),
		boolColumn("is_smartnic", func(p *p) *bool { return &p.IsSmartNIC }),
		objectColumn("local_link_connection", func(p *p) *node.Object { return &p.LocalLinkConnection }),
		objectColumn("internal_info", func(p *p) *node.Object { return &p.InternalInfo }),
		objectColumn("extra", func(p *p) *node.Object { return &p.Extra }),
		timeColumn("created_at", func(p *p) *time.Time { return &p.CreatedAt }),
		timeColumn("updated_at", func(p *p) *time.Time { return &p.UpdatedAt }),
	}
}

// Ports returns the page of ports that the query asks for. Filters may also use "node_uuid" and the
// fields of the node in ofNode.
func (tx *Tx) Ports(q node.Query) ([]*node.Port, error) {
	q, err := tx.nodeIDFilter(q)
	if err != nil {
		return nil, err
	}
	tail, args, err := pageClause(tx, portTable.name, q, func(field string) (string, bool) {
		if joined, ok := ofNode[field]; ok {
			return joined, true
		}
		return portTable.column(field)
	})
	if err != nil {
		return nil, err
	}
	if q.Brief {
		return tx.selectPorts(briefPortTable, 0, tail, args)
	}
	return tx.selectPorts(portTable, q.MaxBytes, tail, args)
}

// briefPortTable has the columns of a short list.
var briefPortTable = portTable.part("id", "uuid", "address")

// PortsOf returns the ports of one node in order of creation.
func (tx *Tx) PortsOf(nodeID int64) ([]*node.Port, error) {
	return tx.ports(" WHERE ports.node_id = ? ORDER BY ports.id", []any{nodeID})
}

// MachinePorts are the ports of a node and those of other nodes that have addresses of its machine.
type MachinePorts struct {
	Own, Others []*node.Port // in order of creation
}

// MachinePorts returns the ports of a node, and the ports of other nodes that have one of the
// addresses.
func (tx *Tx) MachinePorts(nodeID int64, macs []string) (*MachinePorts, error) {
	found := &MachinePorts{}
	if err := tx.machinePorts(tx.query, nodeID, macs, found); err != nil {
		return nil, err
	}
	found.sort()
	return found, nil
}

// sort puts the ports into the order of creation. A statement with that order might read all ports
// by their keys.
func (m *MachinePorts) sort() {
	for _, ports := range [][]*node.Port{m.Own, m.Others} {
		slices.SortFunc(ports, func(a, b *node.Port) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// PrefetchMachinePorts is MachinePorts for a reader that follows the write. It calls found when the
// commit is answered at the latest. It never calls found if the write changes nothing, if the answer
// to the commit was lost, or on SQLite, where a read beside the write costs less than one in it.
func (tx *Tx) PrefetchMachinePorts(nodeID int64, macs []string, found func(*MachinePorts)) error {
	if tx.shared == nil {
		return nil
	}
	ports := &MachinePorts{}
	later := func(scan func(row) error, query string, args ...any) error {
		return tx.queryLater(func() { ports.sort(); found(ports) }, scan, query, args...)
	}
	return tx.machinePorts(later, nodeID, macs, ports)
}

func (tx *Tx) machinePorts(query queryFunc, nodeID int64, macs []string, into *MachinePorts) error {
	chunks := [][]string{macs} // as one argument
	if !tx.takesLists && len(macs) > 0 {
		chunks = slices.Collect(slices.Chunk(macs, maxRows))
	}
	for i, some := range chunks {
		among, args := tx.among(some)
		from := "(SELECT * FROM ports WHERE node_id = ? UNION ALL SELECT * FROM ports WHERE node_id <> ? AND address " + among + ") AS ports"
		err := queryPorts(query, portTable, 0, from, "", append([]any{nodeID, nodeID}, args...), func(p *node.Port) {
			switch {
			case p.NodeID != nodeID:
				into.Others = append(into.Others, p)
			case i == 0: // each chunk finds all of them
				into.Own = append(into.Own, p)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Port returns the port with this UUID or name, or a *node.NotFoundError. In a write, nobody else
// can change the port or its node before the commit.
func (tx *Tx) Port(ident string) (*node.Port, error) {
	for _, column := range identColumns(ident) {
		if err := tx.lockRecord(portTable.name, column, ident, true); err != nil {
			return nil, err
		}
		ports, err := tx.ports(" WHERE ports."+column+" = ?", []any{ident})
		if err != nil || len(ports) > 0 {
			return first(ports), err
		}
	}
	return nil, &node.NotFoundError{Kind: "Port", Ident: ident}
}

func (tx *Tx) ports(tail string, args []any) ([]*node.Port, error) {
	return tx.selectPorts(portTable, 0, tail, args)
}

// selectPorts reads the columns of a table of ports, and the UUIDs of their nodes. For maxBytes see
// table.pageScanner.
func (tx *Tx) selectPorts(columns *table[node.Port], maxBytes int, tail string, args []any) ([]*node.Port, error) {
	ports := []*node.Port{}
	err := queryPorts(tx.query, columns, maxBytes, portTable.name, tail, args, func(p *node.Port) { ports = append(ports, p) })
	return ports, err
}

// queryPorts calls found for each port that a query returns. From is the table, or a query for rows
// of it, under the name ports.
func queryPorts(query queryFunc, columns *table[node.Port], maxBytes int, from, tail string, args []any, found func(*node.Port)) error {
	var nodeUUID string
	scan := columns.pageScanner(maxBytes, &nodeUUID)
	return query(func(rows row) error {
		p, err := scan(rows)
		if err != nil {
			return err
		}
		p.NodeUUID = nodeUUID
		found(p)
		return nil
	}, "SELECT "+columns.list+", nodes.uuid FROM "+from+" JOIN nodes ON nodes.id = ports.node_id"+tail, args...)
}

// CreatePort stores a new port of the node p.NodeID and sets its key and creation time. A UUID,
// name or address that is taken is a *node.ConflictError.
func (tx *Tx) CreatePort(p *node.Port) error {
	p.CreatedAt = tx.Now().Truncate(time.Microsecond).UTC()
	id, err := portTable.insert(tx, p)
	if errors.Is(err, errTaken) {
		return cmp.Or(tx.uniquePort(p, 0), err)
	}
	if err != nil {
		return err
	}
	p.ID = id
	return nil
}

// AddPorts stores new ports of a node, several in each statement. It leaves out a port whose
// address another port has taken meanwhile.
func (tx *Tx) AddPorts(nodeID int64, ports []*node.Port) error {
	for some := range slices.Chunk(ports, maxRows) {
		if err := tx.insertPorts(nodeID, some); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) insertPorts(nodeID int64, ports []*node.Port) error {
	columns := portTable.columns[1:]
	args := make([]any, 0, len(ports)*len(columns))
	for _, p := range ports {
		p.NodeID, p.CreatedAt = nodeID, tx.Now().Truncate(time.Microsecond).UTC()
		for _, c := range columns {
			args = append(args, c.get(p))
		}
	}
	err := tx.exec("INSERT INTO ports ("+portTable.unqualified()+") VALUES "+repeat("("+marks(len(columns))+")", len(ports))+" ON CONFLICT (address) DO NOTHING", args...)
	return err
}

// PortOwners returns, by address, the UUIDs of the nodes whose ports have the addresses.
func (tx *Tx) PortOwners(macs []string) (map[string]string, error) {
	owners := map[string]string{}
	take := func(rows row) error {
		var address, owner string
		err := rows.Scan(&address, &owner)
		owners[address] = owner
		return err
	}
	if tx.takesLists {
		return owners, tx.query(take, ownersOfList, macs)
	}
	for some := range slices.Chunk(macs, maxRows) {
		args := make([]any, len(some))
		for i, mac := range some {
			args[i] = mac
		}
		err := tx.query(take, "SELECT ports.address, nodes.uuid FROM ports JOIN nodes ON nodes.id = ports.node_id WHERE ports.address IN ("+marks(len(args))+")", args...)
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// ownersOfList is the query of PortOwners for databases that take the addresses as one list, see
// matchLists.
const ownersOfList = `SELECT asked.address, owner.uuid FROM unnest(?::text[]) AS asked (address)
	CROSS JOIN LATERAL (SELECT node_id FROM ports WHERE ports.address = asked.address OFFSET 0) AS port
	CROSS JOIN LATERAL (SELECT uuid FROM nodes WHERE nodes.id = port.node_id OFFSET 0) AS owner`

// UpdatePort stores the changes from before to after. If there are any, it sets after.UpdatedAt. A
// port that another node has got since it was read stays as it is.
func (tx *Tx) UpdatePort(before, after *node.Port) error {
	if before.Address != after.Address || before.Name != after.Name {
		if err := tx.uniquePort(after, before.ID); err != nil {
			return err
		}
	}
	if !portTable.changed(before, after) {
		after.UpdatedAt = before.UpdatedAt
		return nil
	}
	after.UpdatedAt = tx.Now().Truncate(time.Microsecond).UTC()
	_, err := portTable.update(tx, before, after, "id = ? AND node_id = ?", before.ID, before.NodeID)
	return err
}

// DeletePort removes a port. Its address still identifies the node when the node's inventory has
// the address too.
func (tx *Tx) DeletePort(p *node.Port) error {
	err := tx.exec("DELETE FROM ports WHERE id = ?", p.ID)
	return err
}

func (tx *Tx) uniquePort(p *node.Port, self int64) error {
	for _, check := range []struct{ column, value, text string }{
		{"uuid", p.UUID, "A port with UUID %s already exists."},
		{"address", p.Address, "A port with MAC address %s already exists."},
		{"name", p.Name, "A port with name %s already exists."},
	} {
		if check.value == "" {
			continue
		}
		var id int64
		found, err := tx.one("SELECT id FROM ports WHERE "+check.column+" = ? AND id <> ?", []any{check.value, self}, &id)
		if err != nil {
			return err
		}
		if found {
			return node.Conflict(check.text, check.value)
		}
	}
	return nil
}
