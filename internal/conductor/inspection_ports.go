package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// portsOfBMCName names the operation that makes the first ports of a node.
const portsOfBMCName = "add ports that the BMC shows"

// portsOfBMC returns the operation that creates ports for a node that has none, from the network
// interfaces that its BMC shows. The boot service finds a machine by its ports alone; it would send
// a machine without ports on to its next boot device. A failure does not end the inspection:
// machines that boot from virtual media, or from the network boot service of somebody else, are
// found in other ways.
func (c *Conductor) portsOfBMC(n *node.Node) runner.Operation {
	reader, err := driver.Ability[driver.NetworkReader](c.drivers, n, node.ManagementInterface, "showing its network interfaces")
	return runner.Operation{
		Ref: runner.Ref{Name: portsOfBMCName}, Skip: err != nil || n.Provisional,
		Read: func(ctx context.Context, n *node.Node) (runner.Write, error) {
			var ports []*node.Port
			err := c.store.ReadSingle(ctx, func(tx *store.Tx) (err error) {
				ports, err = tx.PortsOf(n.ID)
				return err
			})
			if err != nil || len(ports) > 0 {
				return nil, err
			}
			shown, err := reader.NetworkAddresses(ctx, n)
			if err != nil {
				return nil, err
			}
			macs := slices.DeleteFunc(shown, func(address string) bool {
				mac, ethernet := node.ParseMAC(address)
				return !ethernet || !inventory.Identifies(mac)
			})
			if len(macs) == 0 {
				return nil, errors.New("it shows none with an Ethernet address")
			}
			return c.addFirstPorts(node.IdentifyingMACs(macs, "")), nil
		},
		Within: inventoryWithin,
		OnFailure: func(cause error) runner.Write {
			text := node.CutText(fmt.Sprintf("The node has no ports, and the BMC did not show the network interfaces of the machine: %v", cause))
			return func(tx *store.Tx, n *node.Node) error {
				return c.recordHistory(tx, n, node.SeverityError, "inspection", text)
			}
		},
	}
}

// addFirstPorts creates ports with those of the addresses that no port of another node has. It
// creates none when the node has got ports meanwhile.
func (c *Conductor) addFirstPorts(macs []string) runner.Write {
	return func(tx *store.Tx, n *node.Node) error {
		ports, err := tx.PortsOf(n.ID)
		if err != nil || len(ports) > 0 {
			return err
		}
		if err := c.takeFromProvisional(tx, n, macs); err != nil {
			return err
		}
		owners, err := tx.PortOwners(macs)
		if err != nil {
			return err
		}
		var created []*node.Port
		for _, mac := range macs {
			if owners[mac] == "" {
				created = append(created, &node.Port{UUID: store.NewUUID(), Address: mac, PXEEnabled: true})
			}
		}
		if len(created) == 0 {
			return c.recordHistory(tx, n, node.SeverityError, "inspection", fmt.Sprintf(
				"The node has no ports, and those of the network interfaces that its BMC shows belong to other nodes, such as node %s.", owners[macs[0]]))
		}
		if err := tx.AddPorts(n.ID, created); err != nil {
			return err
		}
		return c.recordHistory(tx, n, node.SeverityInfo, "inspection", "The node had no ports, and gets those of the network interfaces that its BMC shows.")
	}
}
