// Package explain tells people where a host or a node stands: in which state
// and since when, what it waits for, and what to do about it.
//
// [Facts] are what is known, [Sentences] makes text of them and is pure, and
// [Gather] collects them from Kubernetes and the engine. Either of the two may
// be unreachable; what the other one knows is told all the same.
package explain

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Facts are all that the text depends on.
type Facts struct {
	// Now is the time to count from; its location is used for times of day.
	Now time.Time
	// Asked is the name or UUID that the user gave, Where the only namespace
	// that hosts were looked for in, empty when all were.
	Asked, Where string

	// Host is nil when Kubernetes has none, or could not be asked.
	Host *Host
	// HostProblem says why Kubernetes could not be asked, empty when it could.
	HostProblem string

	// Node is nil when the engine has none, or could not be asked.
	Node *Node
	// NodeProblem says why the engine could not be asked, empty when it could.
	NodeProblem string

	// Discoveries are the resources that may make a host of a node. They are
	// looked up only for a node without a host.
	Discoveries []Discovery
}

// Known tells whether there is anything to explain.
func (f Facts) Known() bool { return f.Host != nil || f.Node != nil }

// Host is what Kubernetes knows.
type Host struct {
	Namespace, Name string
	// State is status.provisioning.state, empty when no operator saw the host.
	State string
	// NodeID is the engine's node as the operator recorded it.
	NodeID string
	// MAC is spec.bootMACAddress.
	MAC string
	// HasBMC tells whether there are BMC details.
	HasBMC bool
	// Consumer names who uses the host, as "Kind namespace/name".
	Consumer string
	// Paused tells whether the annotation is there, PausedBy its value.
	Paused   bool
	PausedBy string
	// Created and Deleted are when the object was made and when somebody asked
	// to delete it; the latter is zero when nobody did.
	Created, Deleted time.Time
	Finalizers       []string
	ErrorType        string
	ErrorMessage     string
	// ErrorCount is how often the operation failed in a row.
	ErrorCount int
	Conditions map[string]Condition
	// Warning is the newest warning event of the last hour, if there is one.
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

// Node is what the engine knows.
type Node struct {
	UUID, Name        string
	State, Target     node.State
	StateSince        time.Time
	LastError         string
	Maintenance       bool
	MaintenanceReason string
	// Reservation is who works on the node right now, empty when nobody does.
	Reservation string
	// Heartbeat is when the ramdisk was last heard of, zero when never.
	Heartbeat time.Time
	// InspectionStarted and InspectionFinished are zero when that never was.
	InspectionStarted, InspectionFinished time.Time
	// User says who uses the node outside of Kubernetes, empty when nobody.
	User string
}

// Discovery is one BareMetalHostDiscovery and what it did with the node.
type Discovery struct {
	Namespace, Name string
	Suspended       bool
	// Ready is its Ready condition, nil when it has none yet.
	Ready *Condition
	// Interval is how often it looks at the engine.
	Interval time.Duration
	// Skipped says why it made no host of the node, nil when it does not say.
	Skipped *Skipped
}

// Skipped is a reason of a discovery resource.
type Skipped struct {
	Reason, Message string
	Since           time.Time
}

// silentAfter is when a ramdisk that is not heard of counts as gone: the time
// that engines give agents by default, which beat at half of it or less.
const silentAfter = 5 * time.Minute

// slowAfter is when something that usually takes seconds deserves a look.
const slowAfter = 2 * time.Minute

// silent tells whether the node's ramdisk is gone.
func (n *Node) silent(now time.Time) bool { return now.Sub(n.Heartbeat) > silentAfter }

// condition is the condition of that type; the zero value when there is none.
func (h *Host) condition(kind string) Condition { return h.Conditions[kind] }
