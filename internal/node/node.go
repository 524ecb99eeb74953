// Package node is the domain of the engine: nodes, ports and other records, the
// provision state machine, and the errors that all layers share. It has values and
// pure functions only: it uses no clock, no database and no network, and imports
// only the standard library.
package node

import (
	"strings"
	"time"
)

// Node is one bare-metal machine as the Bare Metal API v1 shows it. A zero
// string, zero time and nil pointer mean null on the wire. The table of fields in
// package httpapi says who may change which field, and since which version.
type Node struct {
	ID     int64  // database key, in the order of creation; never shown
	UUID   string // set once at creation
	Name   string // unique; empty for discovered nodes
	Driver string // hardware type

	DriverInfo         Object // how to reach the BMC; holds secrets
	DriverInternalInfo Object // state of the engine and its drivers; holds the agent token
	Properties         Object // scheduling facts: cpu_arch, local_gb, …
	Extra              Object // free for clients
	InstanceInfo       Object // what to deploy; may hold secrets
	InstanceUUID       string
	InstanceName       string
	NetworkData        Object

	PowerState           PowerState
	TargetPowerState     PowerState
	ProvisionState       State
	TargetProvisionState State
	ProvisionUpdatedAt   time.Time
	LastError            string

	Maintenance       bool
	MaintenanceReason string
	Fault             string // see the Fault constants; empty when a client set maintenance
	Health            string

	ConsoleEnabled       bool
	InspectionStartedAt  time.Time
	InspectionFinishedAt time.Time
	CleanStep            Object
	DeployStep           Object
	ServiceStep          Object
	RAIDConfig           Object
	TargetRAIDConfig     Object

	ResourceClass  string
	Traits         Words
	Interfaces     Interfaces
	ConductorGroup string // lower case
	AutomatedClean *bool  // nil: configuration decides

	Protected       bool
	ProtectedReason string
	Retired         bool
	RetiredReason   string
	Owner           string
	Lessee          string
	Description     string

	AllocationUUID  string
	ChassisUUID     string
	BootMode        string
	SecureBoot      *bool
	Shard           string
	ParentNode      string
	DisablePowerOff bool

	// AutoDiscovered marks a node that the engine enrolled because an unknown
	// machine posted its inventory. It never changes after creation.
	AutoDiscovered bool

	// Provisional marks a discovered node that no person has accepted yet, see Accepts.
	// Registered nodes take its addresses, and it has a limited number of them.
	Provisional bool

	CreatedAt time.Time
	UpdatedAt time.Time

	// Lease is the lease that was in force when the node was read. The API
	// shows its owner as reservation.
	Lease Lease
}

// Lease is the right of one conductor to work on one node. The zero value means
// that nobody holds it.
type Lease struct {
	Holder    string    // conductor host name
	Epoch     int64     // grows with every grant; a write is valid only under the epoch that was granted
	ExpiresAt time.Time // by the database's clock
	// BusyUntil is the deadline of a call that may be changing the machine; zero without such a
	// call. It may be later than the end of the lease. The row then stays with a negative epoch,
	// and nobody gets a lease before BusyUntil.
	BusyUntil time.Time
}

// InForce reports whether nobody else may work on the node at now: the lease has not expired, or a
// call that was made under it may still change the machine.
func (l Lease) InForce(now time.Time) bool {
	return l.Epoch != 0 && (l.ExpiresAt.After(now) || l.Busy(now))
}

// Busy reports whether a call may still change the machine at now.
func (l Lease) Busy(now time.Time) bool { return l.BusyUntil.After(now) }

// Values of Node.Fault, as the Bare Metal API names them. A node with a fault
// is in maintenance because the engine put it there.
const (
	FaultPowerFailure       = "power failure"
	FaultCleanFailure       = "clean failure"
	FaultRescueAbortFailure = "rescue abort failure"
	FaultServiceFailure     = "service failure"
)

// Faults lists all faults, for filters.
func Faults() []string {
	return []string{FaultPowerFailure, FaultCleanFailure, FaultRescueAbortFailure, FaultServiceFailure}
}

// Port is one network interface of a node, known by its MAC address.
type Port struct {
	ID                  int64
	UUID                string
	NodeID              int64
	NodeUUID            string
	Address             string // MAC, lower case, colons; unique among ports
	Name                string // unique when set
	Description         string
	Vendor              string
	Category            string
	PortgroupUUID       string
	PXEEnabled          bool
	PhysicalNetwork     string
	IsSmartNIC          bool
	LocalLinkConnection Object
	InternalInfo        Object
	Extra               Object
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// InspectionData is the result of the last successful inspection of a node.
type InspectionData struct {
	Inventory  []byte // JSON object exactly as the agent sent it
	PluginData []byte // JSON object: the agent's other keys and what hooks added
}

// Event is one row of a node's history.
type Event struct {
	UUID      string
	NodeID    int64
	CreatedAt time.Time
	Conductor string
	Severity  Severity
	Type      string // "verify", "clean", "inspect", "power", "agent", …
	Message   string // for people
	User      string
}

// Severity of a history row.
type Severity string

// Severities, as the history of the Bare Metal API spells them.
const (
	SeverityInfo  Severity = "INFO"
	SeverityError Severity = "ERROR"
)

// PowerState is a power state, or the target of a power change, in wire spelling.
// Empty means unknown.
type PowerState string

// Power states and targets.
const (
	PowerOn       PowerState = "power on"
	PowerOff      PowerState = "power off"
	PowerError    PowerState = "error"
	Rebooting     PowerState = "rebooting"
	SoftPowerOff  PowerState = "soft power off"
	SoftRebooting PowerState = "soft rebooting"
)

// InterfaceKind numbers the driver interfaces of a node.
type InterfaceKind int

// Driver interfaces in the order the API lists them.
const (
	BIOSInterface InterfaceKind = iota
	BootInterface
	ConsoleInterface
	DeployInterface
	FirmwareInterface
	InspectInterface
	ManagementInterface
	NetworkInterface
	PowerInterface
	RAIDInterface
	RescueInterface
	StorageInterface
	VendorInterface
	InterfaceCount // number of kinds; not a kind
)

var interfaceNames = [InterfaceCount]string{
	"bios", "boot", "console", "deploy", "firmware", "inspect", "management",
	"network", "power", "raid", "rescue", "storage", "vendor",
}

// String returns the kind as in field names, without "_interface".
func (k InterfaceKind) String() string { return interfaceNames[k] }

// Field returns the name of the node's field for the kind, such as "boot_interface".
func (k InterfaceKind) Field() string { return interfaceNames[k] + "_interface" }

// InterfaceKindOf returns the kind of a field name such as "boot_interface".
func InterfaceKindOf(field string) (InterfaceKind, bool) {
	name, ok := strings.CutSuffix(field, "_interface")
	if !ok {
		return 0, false
	}
	for k, n := range interfaceNames {
		if n == name {
			return InterfaceKind(k), true
		}
	}
	return 0, false
}

// Interfaces is the chosen implementation of each driver interface.
type Interfaces [InterfaceCount]string
