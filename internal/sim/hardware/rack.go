package hardware

import "fmt"

const (
	slotsPerRack   = 20 // machines in one rack
	racksPerRow    = 12
	portsPerGroup  = 24 // switch ports reserved for the n-th interface of every slot
	leafSwitches   = 2  // leaf switches per rack; interfaces alternate between them
	firstTenantTag = 100
)

// place is the place of a machine. All machines of a rack are connected to the rack's leaf
// switches, so that the LLDP data of all machines describes one consistent network.
type place struct {
	seed uint64
	rack int
	slot int
}

// placeOf returns the place of machine index. Machines fill the racks in the order of their
// indices.
func placeOf(seed uint64, index int) place {
	return place{seed: seed, rack: index / slotsPerRack, slot: index % slotsPerRack}
}

// rackName returns the name of the rack: the letter of the row and a number.
func (p place) rackName() string {
	return fmt.Sprintf("%c%02d", 'a'+rune(p.rack/racksPerRow%26), p.rack%racksPerRow+1)
}

// switchModel is a model of leaf switch, with the format of its LLDP data.
type switchModel struct {
	description string
	prefix      oui
	portFormat  string // takes the port number, counted from 1
	mtu         int    // maximum frame size in bytes
	vlanName    bool   // announces VLAN names
}

var switchModels = []switchModel{
	{"Cumulus Linux version 5.9.1 running on Mellanox Technologies Ltd. MSN2410", oui{0x1c, 0x34, 0xda}, "swp%d", 9216, false},
	{"Arista Networks EOS version 4.31.2F running on an Arista Networks DCS-7050SX3-48YC8", oui{0x28, 0x99, 0x3a}, "Ethernet%d", 9236, true},
	{"Cisco Nexus Operating System (NX-OS) Software 10.3(4a) TAC support: http://www.cisco.com/tac running on N9K-C93180YC-FX3", oui{0x00, 0x3a, 0x7d}, "Ethernet1/%d", 9216, true},
	{"Juniper Networks, Inc. qfx5120-48y Ethernet Switch, kernel JUNOS 22.4R3-S2.11, Build date: 2024-02-08 12:09:22 UTC", oui{0x40, 0xde, 0xad}, "xe-0/0/%d", 9192, false},
	{"Dell SmartFabric OS10 Enterprise. OS Version: 10.5.6.2. System Type: S5248F-ON", oui{0x8c, 0x04, 0xba}, "ethernet1/1/%d", 9216, true},
}

// switchPort is a port of a leaf switch. One interface is plugged into it.
type switchPort struct {
	model   switchModel
	rack    int
	leaf    int // 0 or 1 within the rack
	name    string
	number  int // counts from 1
	system  string
	chassis mac
	vlan    int
}

// port returns the switch port of interface nic of the machine. Interfaces alternate between the
// two leaf switches of the rack. Every switch port has at most one machine.
func (p place) port(nic int) switchPort {
	model := switchModels[mix(p.seed^uint64(p.rack)*0x9e3779b97f4a7c15)%uint64(len(switchModels))]
	leaf := nic % leafSwitches
	number := nic/leafSwitches*portsPerGroup + p.slot + 1
	return switchPort{
		model:   model,
		rack:    p.rack,
		leaf:    leaf,
		number:  number,
		name:    fmt.Sprintf(model.portFormat, number),
		system:  fmt.Sprintf("leaf-%s-%c.net.example", p.rackName(), 'a'+rune(leaf)),
		chassis: macAddress(model.prefix, ^p.seed, p.rack, leaf),
		vlan:    firstTenantTag + p.rack%64,
	}
}

// collectsLLDP reports whether the ramdisks of this rack collect LLDP data. A boot parameter
// enables that for whole racks; every fifth rack does not have the parameter.
func (p place) collectsLLDP() bool { return p.rack%5 != 4 }
