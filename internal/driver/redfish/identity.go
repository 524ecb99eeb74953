package redfish

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Identity reads the UUID and the serial number of the system (ComputerSystem.UUID and
// SerialNumber).
func (d Driver) Identity(ctx context.Context, n *node.Node) (node.MachineIdentity, error) {
	var identity node.MachineIdentity
	err := d.with(ctx, n, "read the identity of the machine", driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err == nil {
			identity = node.NewMachineIdentity(system.UUID, system.SerialNumber)
		}
		return err
	})
	return identity, err
}

// MachineFacts reads UUID, SerialNumber and SKU of the system, and MACAddress and
// PermanentMACAddress of its EthernetInterfaces. When not all interfaces can be read, the facts
// have no addresses: a list with gaps proves nothing.
func (d Driver) MachineFacts(ctx context.Context, n *node.Node) (node.MachineFacts, error) {
	var facts node.MachineFacts
	err := d.with(ctx, n, "read the identity of the machine", driver.Turn{}, func(c *call) error {
		s := &survey{call: c}
		system, err := s.shownSystem()
		if err != nil {
			return err
		}
		facts = node.MachineFacts{MachineIdentity: node.NewMachineIdentity(system.UUID, system.SerialNumber), SKU: told(system.SKU)}
		var macs []string
		err = membersOf(s, system.EthernetInterfaces.String(), func(_ string, e ethernetInterface) {
			for _, address := range []string{e.MACAddress, e.PermanentMACAddress} {
				if mac, octets := node.ParseHardwareAddress(told(address)); octets != 0 {
					macs = append(macs, mac)
				}
			}
		})
		if err == nil && s.missed == 0 {
			slices.Sort(macs)
			facts.MACAddresses = slices.Compact(macs)
		}
		return err
	})
	return facts, err
}
