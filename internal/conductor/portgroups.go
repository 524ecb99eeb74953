package conductor

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Portgroups serves the port groups. They can be changed only on nodes that are not
// under work and not in use, and deleted only without ports.
func (c *Conductor) Portgroups() node.Collection[node.Portgroup] {
	return collection[node.Portgroup]{c: c, kind: store.Portgroups, rules: rules[node.Portgroup]{
		created: createdPortgroup, changed: changedPortgroup, deleted: deletedPortgroup,
	}}
}

func createdPortgroup(tx *store.Tx, g *node.Portgroup) error {
	n, err := ownerOf(tx, g.NodeUUID)
	if err != nil {
		return err
	}
	g.NodeID, g.NodeUUID = n.ID, n.UUID
	return nil
}

// rewiredIn are the states of a node in which its port groups may be changed without
// maintenance.
var rewiredIn = []node.State{node.Enroll, node.Inspecting, node.InspectWait, node.Manageable}

func changedPortgroup(tx *store.Tx, before, after *node.Portgroup) error {
	if after.NodeUUID != before.NodeUUID {
		return node.Invalid("Port group %s cannot move to another node: delete it and create it there.", before.UUID)
	}
	n, err := unleased(tx, before.NodeUUID)
	if err != nil {
		return err
	}
	if !n.Maintenance && !slices.Contains(rewiredIn, n.ProvisionState) {
		return node.Conflict("Port group %s cannot be changed while node %s is in state %q; allowed are %q, or any state in maintenance.",
			before.UUID, n.UUID, n.ProvisionState, rewiredIn)
	}
	if after.StandalonePortsSupported || !before.StandalonePortsSupported {
		return nil
	}
	ports, err := portsOfGroup(tx, before.UUID)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if p.PXEEnabled {
			return node.Conflict("Port group %s must support standalone ports, because its port %s boots from the network: clear the port's pxe_enabled first.",
				before.UUID, p.UUID)
		}
	}
	return nil
}

func deletedPortgroup(tx *store.Tx, g *node.Portgroup) error {
	if _, err := unleased(tx, g.NodeUUID); err != nil {
		return err
	}
	ports, err := portsOfGroup(tx, g.UUID)
	if err == nil && len(ports) > 0 {
		err = node.Invalid("Port group %s still has ports, such as %s: remove them first.", g.UUID, ports[0].UUID)
	}
	return err
}

func portsOfGroup(tx *store.Tx, uuid string) ([]*node.Port, error) {
	return tx.Ports(node.Query{Filters: []node.Filter{{Field: "portgroup_uuid", Value: uuid}}})
}

// checkMembership checks the rules between a port and its port group. Before is the port before the
// change, nil for a new port.
func checkMembership(tx *store.Tx, before, p *node.Port) error {
	if p.PortgroupUUID == "" {
		return nil
	}
	g, err := store.Portgroups.Get(tx, p.PortgroupUUID)
	if isNotFound(err) {
		return node.Invalid("Port group %s could not be found.", p.PortgroupUUID)
	}
	if err != nil {
		return err
	}
	members, err := portsOfGroup(tx, g.UUID)
	if err != nil {
		return err
	}
	return fits(before, p, g, members)
}

// fits returns an error unless a port may be in a group with these members.
func fits(before, p *node.Port, g *node.Portgroup, members []*node.Port) error {
	if g.NodeUUID != p.NodeUUID {
		return node.Invalid("Port %s cannot be in port group %s, which belongs to another node.", p.Address, g.UUID)
	}
	if p.PXEEnabled && !g.StandalonePortsSupported {
		return node.Conflict("Port %s cannot be in port group %s with pxe_enabled: the group does not support standalone ports.", p.Address, g.UUID)
	}
	if before != nil && before.PortgroupUUID == p.PortgroupUUID && before.PhysicalNetwork == p.PhysicalNetwork {
		return nil
	}
	for _, member := range members {
		if member.UUID != p.UUID && member.PhysicalNetwork != p.PhysicalNetwork {
			return node.Conflict("Port %s has physical network %q, but port %s of the same port group has %q: all ports of a group share one.",
				p.Address, p.PhysicalNetwork, member.UUID, member.PhysicalNetwork)
		}
	}
	return nil
}
