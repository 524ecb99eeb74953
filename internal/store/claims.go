package store

import (
	"cmp"
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// ClaimKind is the kind of address that a claim is about.
type ClaimKind string

// Kinds of claims.
const (
	MAC ClaimKind = "mac" // a network interface of the machine
	BMC ClaimKind = "bmc" // an IP address of its BMC
	// InspectedBMC is an IP address of the BMC of a machine while the machine is inspected. Of the
	// claims on BMC addresses only these lead to the node of a machine. The others only say that
	// the machine is not unknown.
	InspectedBMC ClaimKind = "inspected bmc"
	// Machine is the system UUID or the serial number of the machine that a node stands for.
	Machine ClaimKind = "machine"
)

// Sources of claims. A node may claim the same address for several reasons, and keeps the address
// until the last of them is gone. A port is a reason as well, but needs no row here, because
// MatchClaims also looks at the ports.
const (
	fromInventory  = "inventory"   // its machine posted it
	fromDriverInfo = "driver_info" // a client configured it
	fromInspection = "inspection"  // its driver_info led to it when inspection began
	fromIdentity   = "identity"    // its BMC told it when the machine was managed or inspected
)

// Claim ties an address to a node. Whoever posts an address of kind MAC or InspectedBMC speaks for
// the node.
type Claim struct {
	Kind ClaimKind
	// Address is a MAC in lower case with colons, an IP in canonical form, or for Machine a UUID or
	// serial number in lower case.
	Address string
}

// ClaimMatch is a node that claims an address that was asked for.
type ClaimMatch struct {
	Kind   ClaimKind
	NodeID int64
	UUID   string
	State  node.State
	// Provisional means that the node is provisional: registered nodes take the address from it.
	Provisional bool
	Port        bool // a port of the node has one of the addresses
}

// MatchClaims returns the nodes that claim any of the addresses or have a port with one, with one
// row for each node and kind, in the order of the nodes' keys: writes that lock several of them then
// do not wait for each other. In a write, no other write that asks for one of the addresses gets an
// answer before the commit.
func (tx *Tx) MatchClaims(claims []Claim) ([]ClaimMatch, error) {
	if err := tx.lockAddresses(claims); err != nil {
		return nil, err
	}
	matches, err := tx.matchClaims(claims)
	slices.SortStableFunc(matches, func(a, b ClaimMatch) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return matches, err
}

func (tx *Tx) matchClaims(claims []Claim) ([]ClaimMatch, error) {
	var matches []ClaimMatch
	take := func(rows row) error {
		var m ClaimMatch
		var provisional, port int64
		if err := rows.Scan(&m.Kind, &m.NodeID, &m.UUID, &m.State, &provisional, &port); err != nil {
			return err
		}
		m.Provisional, m.Port = provisional != 0, port != 0
		same := func(other ClaimMatch) bool { return other.Kind == m.Kind && other.NodeID == m.NodeID }
		if i := slices.IndexFunc(matches, same); i >= 0 {
			matches[i].Port = matches[i].Port || m.Port
			return nil
		}
		matches = append(matches, m)
		return nil
	}
	if tx.takesLists {
		addresses, kinds := make([]string, len(claims)), make([]string, len(claims))
		for i, c := range claims {
			addresses[i], kinds[i] = c.Address, string(c.Kind)
		}
		err := tx.query(take, matchLists, addresses, kinds)
		return matches, err
	}
	for some := range slices.Chunk(claims, maxRows) {
		args := make([]any, 0, 3*len(some))
		for _, c := range some {
			args = append(args, c.Address, string(c.Kind))
		}
		query := `SELECT claims.kind, nodes.id, nodes.uuid, nodes.provision_state, nodes.provisional, 0 FROM claims
			JOIN nodes ON nodes.id = claims.node_id WHERE (claims.address, claims.kind) IN (VALUES ` + repeat("(?, ?)", len(some)) + ")"
		macs := 0
		for _, c := range some {
			if c.Kind == MAC {
				args = append(args, c.Address)
				macs++
			}
		}
		if macs > 0 {
			query += ` UNION SELECT '` + string(MAC) + `', nodes.id, nodes.uuid, nodes.provision_state, nodes.provisional, 1 FROM ports
			JOIN nodes ON nodes.id = ports.node_id WHERE ports.address IN (` + marks(macs) + ")"
		}
		if err := tx.query(take, query, args...); err != nil {
			return nil, err
		}
	}
	return matches, nil
}

// matchLists is the query of MatchClaims in which addresses and their kinds are two lists. It has
// one text for any number of addresses. OFFSET 0 makes the server find each address by its index.
// Otherwise a server whose statistics are from when the tables were empty would read all claims,
// ports and nodes for each machine.
const matchLists = `SELECT asked.kind, claimant.id, claimant.uuid, claimant.provision_state, claimant.provisional, found.port
	FROM unnest(?::text[], ?::text[]) AS asked (address, kind)
	CROSS JOIN LATERAL (
		(SELECT node_id, 0 AS port FROM claims WHERE claims.address = asked.address AND claims.kind = asked.kind OFFSET 0)
		UNION ALL (SELECT node_id, 1 FROM ports WHERE asked.kind = '` + string(MAC) + `' AND ports.address = asked.address OFFSET 0)
	) AS found
	CROSS JOIN LATERAL (SELECT id, uuid, provision_state, provisional FROM nodes WHERE nodes.id = found.node_id OFFSET 0) AS claimant`

// ClaimInventory claims every address of a node's inventory, in place of those of an earlier
// inventory.
func (tx *Tx) ClaimInventory(nodeID int64, claims []Claim) error {
	return tx.replaceClaims(nodeID, fromInventory, claims)
}

// ClaimBMC replaces the BMC addresses that a node claims through its
// driver_info.
func (tx *Tx) ClaimBMC(nodeID int64, claims []Claim) error {
	return tx.replaceClaims(nodeID, fromDriverInfo, claims)
}

// ClaimInspected replaces the BMC addresses, of kind InspectedBMC, by which a
// node's machine is found while it is inspected.
func (tx *Tx) ClaimInspected(nodeID int64, claims []Claim) error {
	return tx.replaceClaims(nodeID, fromInspection, claims)
}

// ClaimMachine replaces the claims, of kind Machine, on the machine that a node stands for.
func (tx *Tx) ClaimMachine(nodeID int64, claims []Claim) error {
	return tx.replaceClaims(nodeID, fromIdentity, claims)
}

// unclaimedTable has the columns of a node that are needed to claim the machine that it stands for.
var unclaimedTable = nodeTable.part("id", "driver_internal_info")

// UnclaimedMachines returns up to limit nodes with keys above after, ordered by key, that have
// noted which machine they stand for and claim none. Such a note is from an engine of a release
// without such claims. Only the fields ID and DriverInternalInfo are set.
func (tx *Tx) UnclaimedMachines(after int64, limit int) ([]*node.Node, error) {
	return tx.partialNodes(unclaimedTable, ` WHERE id > ? AND driver_internal_info LIKE ?
		AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.node_id = nodes.id AND claims.source = ?) ORDER BY id LIMIT ?`,
		after, `%"`+node.MachineIdentityKey+`"%`, fromIdentity, limit)
}

// AddMachine claims a machine for a node that claims none. A claim that another replica makes
// meanwhile stays.
func (tx *Tx) AddMachine(nodeID int64, claims []Claim) error {
	return tx.claim(nodeID, fromIdentity, claims...)
}

func (tx *Tx) replaceClaims(nodeID int64, source string, claims []Claim) error {
	if nodeID != tx.created { // a new node has none
		if err := tx.exec("DELETE FROM claims WHERE node_id = ? AND source = ?", nodeID, source); err != nil {
			return err
		}
	}
	return tx.claim(nodeID, source, claims...)
}

func (tx *Tx) claim(nodeID int64, source string, claims ...Claim) error {
	for some := range slices.Chunk(claims, maxRows) {
		args := make([]any, 0, 4*len(some))
		for _, c := range some {
			args = append(args, c.Address, string(c.Kind), nodeID, source)
		}
		err := tx.exec("INSERT INTO claims (address, kind, node_id, source) VALUES "+repeat("(?, ?, ?, ?)", len(some))+" ON CONFLICT DO NOTHING", args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// MACsOf returns the MAC addresses that a node claims or has ports with, each once, in
// order.
func (tx *Tx) MACsOf(nodeID int64) ([]string, error) {
	var macs []string
	err := tx.query(func(r row) error {
		var mac string
		err := r.Scan(&mac)
		macs = append(macs, mac)
		return err
	}, "SELECT address FROM claims WHERE node_id = ? AND kind = ? UNION SELECT address FROM ports WHERE node_id = ? ORDER BY address", nodeID, string(MAC), nodeID)
	return macs, err
}

// InventoryOwners returns which of the MAC addresses the inventories of other nodes claim, with the
// UUID of one such node for each. It leaves out claims of provisional nodes, and addresses that the
// node itself has a port with.
func (tx *Tx) InventoryOwners(nodeID int64, macs []string) (map[string]string, error) {
	owners := map[string]string{}
	for some := range slices.Chunk(macs, maxRows) {
		args := []any{nodeID, nodeID, string(MAC), fromInventory}
		for _, mac := range some {
			args = append(args, mac)
		}
		err := tx.query(func(r row) error {
			var address, owner string
			err := r.Scan(&address, &owner)
			owners[address] = owner
			return err
		}, `SELECT claims.address, nodes.uuid FROM claims JOIN nodes ON nodes.id = claims.node_id
			WHERE nodes.provisional = 0 AND claims.node_id <> ?
			AND NOT EXISTS (SELECT 1 FROM ports WHERE ports.address = claims.address AND ports.node_id = ?)
			AND claims.kind = ? AND claims.source = ? AND claims.address IN (`+marks(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// DropInventoryMAC removes the claim of a node's inventory on a MAC address until a new
// inventory has it. What else ties the address to the node stays.
func (tx *Tx) DropInventoryMAC(nodeID int64, mac string) error {
	return tx.exec("DELETE FROM claims WHERE node_id = ? AND kind = ? AND source = ? AND address = ?", nodeID, string(MAC), fromInventory, mac)
}

// ReleaseMACs removes a node's claims on MAC addresses, and its ports with them.
func (tx *Tx) ReleaseMACs(nodeID int64, macs []string) error {
	for some := range slices.Chunk(macs, maxRows) {
		args := []any{nodeID}
		for _, mac := range some {
			args = append(args, mac)
		}
		for _, statement := range []string{
			"DELETE FROM claims WHERE node_id = ? AND kind = '" + string(MAC) + "' AND address IN (",
			"DELETE FROM ports WHERE node_id = ? AND address IN (",
		} {
			if err := tx.exec(statement+marks(len(some))+")", args...); err != nil {
				return err
			}
		}
	}
	return nil
}
