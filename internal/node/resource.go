package node

import "time"

// Chassis groups nodes that share an enclosure.
type Chassis struct {
	ID          int64
	UUID        string
	Description string
	Extra       Object
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Portgroup bonds ports of one node.
type Portgroup struct {
	ID       int64
	UUID     string
	NodeID   int64
	NodeUUID string
	Name     string // unique when set
	Address  string // MAC of the bond, lower case, colons; unique when set
	Mode     string // bonding mode, see DefaultBondMode
	// StandalonePortsSupported says that each port also works without the bond, which booting from
	// the network requires.
	StandalonePortsSupported bool
	PhysicalNetwork          string
	Category                 string
	Properties               Object // bonding options
	InternalInfo             Object
	Extra                    Object
	CreatedAt                time.Time
	UpdatedAt                time.Time
}

// DefaultBondMode is the mode of a port group when none is given.
const DefaultBondMode = "active-backup"

// DeployTemplate adds deploy steps to nodes whose instance asks for the trait of
// the template's name.
type DeployTemplate struct {
	ID        int64
	UUID      string
	Name      string // a trait; unique
	Steps     Array  // objects with interface, step, args and priority
	Extra     Object
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Runbook is a list of steps that nodes with the trait of its name may run.
type Runbook struct {
	ID             int64
	UUID           string
	Name           string // a trait; unique
	Steps          Array  // objects with interface, step, args and order
	DisableRamdisk bool   // the steps run without a ramdisk
	Public         bool   // every project may use it; it has no owner then
	Owner          string // project; empty without an owner
	Extra          Object
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// VolumeConnector is an address of a node in a storage network.
type VolumeConnector struct {
	ID          int64
	UUID        string
	NodeID      int64
	NodeUUID    string
	Type        string // "iqn", "ip", "mac", "wwnn", "wwpn", …
	ConnectorID string // unique within its type
	Extra       Object
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// VolumeTarget is a remote volume that a node can use or boot from.
type VolumeTarget struct {
	ID         int64
	UUID       string
	NodeID     int64
	NodeUUID   string
	VolumeType string // "iscsi", "fibre_channel", …
	VolumeID   string
	BootIndex  int64  // unique on the node; 0 boots
	Properties Object // how to reach the volume; may hold secrets
	Extra      Object
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Shard is a shard with the number of its nodes; the empty name stands for nodes
// without a shard.
type Shard struct {
	Name  string
	Count int64
}
