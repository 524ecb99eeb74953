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

// NodeName returns the name of the engine's node for a host.
func NodeName(namespace, name string) string { return namespace + "~" + name }

// Mark says which host a node belongs to. It is in the node's extra data, under
// v1alpha1.NodeMarkKey: engines and their other clients leave that alone, and nobody can write it
// who only has rights in Kubernetes. The mark goes with the node, or when a person removes it.
type Mark string

// MarkOf returns the mark of a host: the UID of the cluster's namespace kube-system, the host's
// namespace and its name. The host's own UID is not part of it, because a host that is restored
// from a backup has another UID.
func MarkOf(cluster, namespace, name string) Mark {
	return Mark(cluster + "/" + namespace + "/" + name)
}

// Moves reports whether two marks are of the same host in two clusters: namespace and name are
// equal, but the clusters are not.
func (m Mark) Moves(other Mark) bool {
	cluster, host, _ := strings.Cut(string(m), "/")
	otherCluster, otherHost, _ := strings.Cut(string(other), "/")
	return host != "" && host == otherHost && cluster != otherCluster
}

// Neighbour returns namespace and name of the marked host, if both marks are of the same cluster.
func (m Mark) Neighbour(other Mark) (host string, ok bool) {
	cluster, host, _ := strings.Cut(string(m), "/")
	otherCluster, _, _ := strings.Cut(string(other), "/")
	return host, host != "" && cluster == otherCluster
}

// Node is a snapshot of one of the engine's nodes.
type Node struct {
	// ID is the UUID. Name is empty for nodes without a name.
	ID, Name string
	// Mark is empty for nodes that no host has claimed. A value that no operator wrote is kept as
	// it is, because such a node belongs to somebody.
	Mark Mark
	// Released is set while the marked host moves to another cluster; see v1alpha1.NodeReleaseKey.
	Released string
	// CredentialsVersion says from which version of which Secret the BMC's credentials come. It is
	// "" if nobody wrote that; see v1alpha1.NodeCredentialsKey.
	CredentialsVersion string
	// Driver is the hardware type.
	Driver string
	// State is the provision state. TargetState is the state that the engine works towards, or
	// empty.
	State, TargetState node.State
	// Power is the power that the engine last read; empty if it could not read it. TargetPower is
	// the power that the engine is changing to, or empty.
	Power, TargetPower node.PowerState
	// Step is the name of the running step of cleaning, deployment or service.
	Step string
	// GuardsFirmware is true while the engine shows which firmware it asked the BMC for. Such an
	// engine delays an abort until the firmware is written; other engines may interrupt the
	// writing.
	GuardsFirmware bool
	// Fault is why the engine itself put the node into maintenance, such as "power failure".
	Fault string
	// LastError is the engine's message about the last failure.
	LastError string
	// Maintenance is true while the node is in maintenance. MaintenanceReason is the given reason.
	Maintenance       bool
	MaintenanceReason string
	// InstanceID and Owner are set on nodes in use. InstanceID is also set while a host takes the
	// node; see [Mark.Lock].
	InstanceID, Owner string
	// Cleans and SkipsCleaning say that automated cleaning is turned on or off for this node. If
	// both are false, the settings of the engine decide.
	Cleans, SkipsCleaning bool
	// Busy is true while the engine works on the node. Suspended is true, too, while the engine
	// holds that work back until a person lets it continue.
	Busy, Suspended bool
	// PutOff is true in the answer of [Registrar.Update] if interfaces differ that cannot be
	// changed in this state. The registration has to be written again in another state.
	PutOff bool
	// AutoDiscovered reports whether the engine enrolled the node by itself. It is nil if only the
	// inventory can show that.
	AutoDiscovered *bool
	// InspectedAt is when the last inspection ended. It is zero if there was none or if the engine
	// does not report it.
	InspectedAt time.Time
	// StateChangedAt is when the provision state last changed; zero if it never did.
	StateChangedAt time.Time
	// Health is the health of the hardware according to its BMC: OK, Warning or Critical. It is ""
	// if the BMC or the engine does not report it.
	Health string
	// CreatedAt and UpdatedAt are by the engine's clock.
	CreatedAt, UpdatedAt time.Time
	// Agent is the agent in the node's ramdisk.
	Agent Agent
}

// Agent is what the engine knows about a node's ramdisk.
type Agent struct {
	// URL is the address of the agent, empty if it never called.
	URL string
	// LastHeartbeat is the time of the agent's last heartbeat, zero if there was none.
	LastHeartbeat time.Time
}

// Alive reports whether the agent's last heartbeat is at most window before now. A ramdisk with a
// live agent can be given work without booting the machine.
func (a Agent) Alive(now time.Time, window time.Duration) bool {
	return !a.LastHeartbeat.IsZero() && now.Sub(a.LastHeartbeat) <= window
}

// freeStates are the provision states in which a node may be unused.
var freeStates = map[node.State]bool{
	node.Enroll: true, node.Manageable: true, node.Available: true,
	node.Inspecting: true, node.InspectWait: true,
}

// BelongsTo says in a few words who uses a node. It returns "" if nobody does. The operator ignores
// nodes in use.
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

// UsedFor says what a node is used for, regardless of its name and mark. It returns "" for nothing.
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
