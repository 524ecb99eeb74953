package provisioner

import (
	"strings"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

// Identity identifies a node. Empty fields are ignored.
type Identity struct {
	// ID is the node's UUID.
	ID string
	// Name is the node's name, "<namespace>~<host>" for nodes that were
	// registered for a host.
	Name string
	// MAC is a MAC address of the machine.
	MAC string
}

// NodeName is the name of the engine's node for a host.
func NodeName(namespace, name string) string { return namespace + "~" + name }

// Mark says which host a node belongs to. It is kept in the node's extra data, under
// v1alpha1.NodeMarkKey: engines and their other clients leave that alone, and nobody can
// write it who only has rights in Kubernetes. The mark ends with the node, or when a
// person removes it.
type Mark string

// MarkOf is the mark of a host: the UID of the cluster's namespace kube-system, the
// host's namespace and its name. The host's own UID is not in it, because a host that
// is restored from a backup has another one.
func MarkOf(cluster, namespace, name string) Mark {
	return Mark(cluster + "/" + namespace + "/" + name)
}

// Moves reports whether two marks are of the same host in two clusters: namespace and name
// are equal, and the cluster is not.
func (m Mark) Moves(other Mark) bool {
	cluster, host, _ := strings.Cut(string(m), "/")
	otherCluster, otherHost, _ := strings.Cut(string(other), "/")
	return host != "" && host == otherHost && cluster != otherCluster
}

// Neighbour returns the namespace and the name of the host in a mark, if it is of the same
// cluster as the other mark.
func (m Mark) Neighbour(other Mark) (host string, ok bool) {
	cluster, host, _ := strings.Cut(string(m), "/")
	otherCluster, _, _ := strings.Cut(string(other), "/")
	return host, host != "" && cluster == otherCluster
}

// Node is a snapshot of one of the engine's nodes.
type Node struct {
	// ID is the UUID. Name is empty for nodes without a name.
	ID, Name string
	// Mark is empty for nodes that no host has claimed. A value that no operator
	// wrote is kept as it is: it belongs to somebody.
	Mark Mark
	// Released is not empty while the host of the mark moves to another cluster; see
	// v1alpha1.NodeReleaseKey.
	Released string
	// CredentialsVersion says which version of which Secret the credentials of the BMC come from, "" when nobody
	// wrote that; see v1alpha1.NodeCredentialsKey.
	CredentialsVersion string
	// Driver is the hardware type.
	Driver string
	// State is the provision state, and TargetState the one that the engine works
	// towards; it is empty when there is none.
	State, TargetState node.State
	// Power is what the engine read last, empty if it could not read it. TargetPower is
	// the power that it is changing to; it is empty when there is none.
	Power, TargetPower node.PowerState
	// Step is the name of the running step of cleaning, deployment or service.
	Step string
	// GuardsFirmware is true while the engine shows which firmware the BMC was asked for. Such an engine lets an abort
	// wait until that is written; others may interrupt it.
	GuardsFirmware bool
	// Fault is what put the node into maintenance without a person's request, such as
	// "power failure".
	Fault string
	// LastError is the engine's message about the last failure.
	LastError string
	// Maintenance is true while a user has put the node into maintenance;
	// MaintenanceReason is the reason that the user gave.
	Maintenance       bool
	MaintenanceReason string
	// InstanceID and Owner are set on nodes in use, and InstanceID while a host takes the node;
	// see [Mark.Lock].
	InstanceID, Owner string
	// Cleans and SkipsCleaning are true when automated cleaning is turned on or off for this node
	// alone. Without either the settings of the engine decide.
	Cleans, SkipsCleaning bool
	// Busy is true while the engine works on the node, and Suspended, too, when it holds that work back until a
	// person lets it go on.
	Busy, Suspended bool
	// PutOff is true in the answer of [Registrar.Update] when interfaces differ that cannot be changed in
	// this state: the registration is to be written again in another one.
	PutOff bool
	// AutoDiscovered reports whether the engine enrolled the node by itself. It
	// is nil if only the inventory can show that.
	AutoDiscovered *bool
	// InspectedAt is when inspection ended last, zero when it never did or
	// when the engine does not report it.
	InspectedAt time.Time
	// StateChangedAt is when the provision state changed last, zero when it never did.
	StateChangedAt time.Time
	// Health is that of the hardware as its BMC tells it: OK, Warning or Critical; "" when
	// it or the engine does not.
	Health string
	// CreatedAt and UpdatedAt are the engine's times.
	CreatedAt, UpdatedAt time.Time
	// Agent is the node's ramdisk.
	Agent Agent
}

// Agent is what the engine knows about a node's ramdisk.
type Agent struct {
	// URL is the address of the agent, empty if it never called.
	URL string
	// LastHeartbeat is the time of the agent's last heartbeat, zero if there was none.
	LastHeartbeat time.Time
}

// Alive reports whether the agent's last heartbeat is at most window before now. A
// ramdisk that is alive can be given work without booting the machine.
func (a Agent) Alive(now time.Time, window time.Duration) bool {
	return !a.LastHeartbeat.IsZero() && now.Sub(a.LastHeartbeat) <= window
}

// freeStates are the provision states in which a node may be unused.
var freeStates = map[node.State]bool{
	node.Enroll: true, node.Manageable: true, node.Available: true,
	node.Inspecting: true, node.InspectWait: true,
}

// BelongsTo describes the user of a node in a few words, or returns "" if nobody
// uses it. The operator ignores nodes in use.
func (n Node) BelongsTo() string {
	switch {
	case n.Mark != "":
		return "extra." + v1alpha1.NodeMarkKey + " names another host"
	case n.Name != "":
		return "it has the name " + n.Name
	default:
		return n.UsedFor()
	}
}

// UsedFor describes what a node is used for, whatever it is called, or returns "".
func (n Node) UsedFor() string {
	switch {
	case IsLock(n.InstanceID):
		return "it is being taken for another host (instance " + n.InstanceID + ")"
	case n.InstanceID != "":
		return "it has the instance " + n.InstanceID
	case n.Owner != "":
		return "its owner is " + n.Owner
	case !freeStates[n.State]:
		return "it is in state " + string(n.State)
	default:
		return ""
	}
}
