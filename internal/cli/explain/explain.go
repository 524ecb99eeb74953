// Package explain describes a host or a node to people: which state it is in and
// since when, what it waits for, and what to do about it.
//
// [Sources.Gather] collects [Facts] from Kubernetes and the engine. When one of the two cannot be
// reached, the facts come from the other alone. [Sentences] turns facts into text and depends on
// nothing else.
package explain

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Facts is everything that the text depends on.
type Facts struct {
	// Now is the time to count from; its location is used for times of day.
	Now time.Time
	// Asked is the name or UUID that the user gave. Where is the only namespace in which hosts were
	// looked for, empty if all namespaces were searched.
	Asked, Where string

	// Host is nil when Kubernetes has none, or could not be reached.
	Host *Host
	// HostProblem says why Kubernetes could not be reached, empty when it could.
	HostProblem string

	// Node is nil when the engine has none, or did not show it.
	Node *Node
	// NodeProblem says why the engine did not show the node. It is empty if the engine did, or has
	// no such node. NodeError is the failure of the call.
	NodeProblem string
	NodeError   error
	// NodeAdvice says what to do about NodeError, empty for nothing. The caller of Gather sets it.
	NodeAdvice string

	// Discoveries are the resources that may create a host for a node. They are
	// looked up only for a node without a host.
	Discoveries []Discovery
}

// Known reports whether there is anything to explain.
func (f Facts) Known() bool { return f.Host != nil || f.Node != nil }

// Host is a host as Kubernetes knows it.
type Host struct {
	Namespace, Name string
	// State is status.provisioning.state, empty before an operator has processed the host.
	State string
	// NodeID is the engine's node as the operator recorded it.
	NodeID string
	// MAC is spec.bootMACAddress.
	MAC string
	// HasBMC reports whether the host has BMC details. Secret is the name of the Secret with the
	// credentials.
	HasBMC bool
	Secret string
	// Consumer is the object that uses the host, as "Kind namespace/name".
	Consumer string
	// Paused reports whether the host has the annotation that pauses it. PausedBy is the
	// annotation's value.
	Paused   bool
	PausedBy string
	// Created and Deleted are when the object was created and when its deletion was requested, zero
	// if it was not.
	Created, Deleted time.Time
	Finalizers       []string
	ErrorType        string
	ErrorMessage     string
	// ErrorCount is how often the operation failed in a row.
	ErrorCount int
	Conditions map[string]Condition
	// Warning is the newest warning event of the last hour, nil if there is none.
	Warning *Event
}

// Condition is one condition of a host or a discovery resource.
type Condition struct {
	True    bool
	Reason  string
	Message string
	Since   time.Time
}

// Event is one Kubernetes event.
type Event struct {
	Reason, Message string
	At              time.Time
}

// Node is a node as the engine knows it.
type Node struct {
	UUID, Name        string
	State, Target     node.State
	StateSince        time.Time
	LastError         string
	Maintenance       bool
	MaintenanceReason string
	// Reservation is the conductor that works on the node, empty when none does.
	Reservation string
	// Step is the step that is running, as interface.step; empty when none is.
	Step string
	// AwaitsRamdisk says that the work waits for a ramdisk whose agent has not called since the
	// ramdisk was booted.
	AwaitsRamdisk bool
	// Heartbeat is the time of the last heartbeat, zero when there was none.
	Heartbeat time.Time
	// Refusals are the heartbeats that the engine has refused since. The first is the one to mend
	// first.
	Refusals []node.HeartbeatRefusal
	// InspectionStarted and InspectionFinished are zero when that never happened.
	InspectionStarted, InspectionFinished time.Time
	// AddressesLeftOut is how many MAC addresses of its machine the node does not claim until a
	// person accepts the node.
	AddressesLeftOut int
	// User says how the node is used outside of this cluster, empty if it is not.
	User string
	// Marked is true when an operator wrote into the node which host it belongs to.
	Marked bool
	// Used is true when the node would not be free without its mark and its name.
	Used bool
}

// Discovery is one BareMetalHostDiscovery and what it decided about the node.
type Discovery struct {
	Namespace, Name string
	Suspended       bool
	// Ready is its Ready condition, nil when it has none yet.
	Ready *Condition
	// Interval is the time between its polls of the engine.
	Interval time.Duration
	// Skipped says why it created no host for the node, nil when it does not say.
	Skipped *Skipped
}

// Skipped is the reason why a discovery resource skipped a node.
type Skipped struct {
	Reason, Message string
	Since           time.Time
}

// silentAfter is how long after its last heartbeat a ramdisk counts as gone. It is the engine's
// default heartbeat timeout; agents wait at most 60 % of that between heartbeats.
const silentAfter = 5 * time.Minute

// slowAfter is the time after which work that usually takes seconds is called slow.
const slowAfter = 2 * time.Minute

// silent reports whether the node's ramdisk counts as gone.
func (n *Node) silent(now time.Time) bool { return now.Sub(n.Heartbeat) > silentAfter }

// refusal returns the refusal to mend first of a ramdisk that runs now. ok is false if the engine
// accepts its heartbeats, or if none arrive.
func (n *Node) refusal(now time.Time) (refusal node.HeartbeatRefusal, ok bool) {
	if n == nil || n.State == node.Active {
		return refusal, false
	}
	return node.FirstRefusal(n.Refusals, now.Add(-silentAfter))
}

// condition returns the condition of that type, the zero value if there is none.
func (h *Host) condition(kind string) Condition { return h.Conditions[kind] }
