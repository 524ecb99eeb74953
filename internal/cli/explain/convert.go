package explain

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	discovery "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

// nodeName returns the name of a node that was registered for a host.
func nodeName(host *v1alpha1.BareMetalHost) string { return host.Namespace + "~" + host.Name }

func hostFacts(host *v1alpha1.BareMetalHost) *Host {
	pausedBy, paused := host.Annotations[v1alpha1.PausedAnnotation]
	h := &Host{
		Namespace:    host.Namespace,
		Name:         host.Name,
		State:        string(host.Status.Provisioning.State),
		NodeID:       host.Status.Provisioning.ID,
		MAC:          host.Spec.BootMACAddress,
		HasBMC:       host.Spec.BMC.Address != "" || host.Spec.BMC.CredentialsName != "",
		Secret:       host.Spec.BMC.CredentialsName,
		Paused:       paused,
		PausedBy:     pausedBy,
		Created:      host.CreationTimestamp.Time,
		Finalizers:   host.Finalizers,
		ErrorType:    string(host.Status.ErrorType),
		ErrorMessage: host.Status.ErrorMessage,
		ErrorCount:   host.Status.ErrorCount,
		Conditions:   map[string]Condition{},
	}
	if pausedBy == v1alpha1.PausedByClusterAPI {
		h.PausedBy = "the Cluster API provider"
	}
	if host.DeletionTimestamp != nil {
		h.Deleted = host.DeletionTimestamp.Time
	}
	if user := host.Spec.ConsumerRef; user != nil {
		h.Consumer = user.Kind + " " + user.Namespace + "/" + user.Name
	}
	for _, c := range host.Status.Conditions {
		h.Conditions[c.Type] = conditionFacts(c)
	}
	return h
}

func conditionFacts(c metav1.Condition) Condition {
	return Condition{True: c.Status == metav1.ConditionTrue, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
}

func eventFacts(event *corev1.Event) Event {
	at := event.LastTimestamp.Time
	if event.Series != nil {
		at = event.Series.LastObservedTime.Time
	}
	for _, other := range []time.Time{event.EventTime.Time, event.CreationTimestamp.Time} {
		if at.IsZero() {
			at = other
		}
	}
	return Event{Reason: event.Reason, Message: event.Message, At: at}
}

func discoveryFacts(d *discovery.BareMetalHostDiscovery, nodeID string) Discovery {
	facts := Discovery{
		Namespace: d.Namespace, Name: d.Name, Suspended: d.Spec.Suspend,
		Interval: d.Spec.PollInterval.Duration,
	}
	for _, c := range d.Status.Conditions {
		if c.Type == discovery.ReadyCondition {
			ready := conditionFacts(c)
			facts.Ready = &ready
		}
	}
	for _, s := range d.Status.Skipped {
		if s.NodeID == nodeID {
			facts.Skipped = &Skipped{Reason: string(s.Reason), Message: s.Message, Since: s.Since.Time}
		}
	}
	return facts
}

// engineNode is a node as the engine's client returns it.
type engineNode struct{ ironic.Node }

// facts returns the facts about the node, nil for a nil node.
func (n *engineNode) facts() *Node {
	if n == nil {
		return nil
	}
	facts := &Node{
		UUID: n.UUID, Name: n.Name,
		State:             node.State(n.ProvisionState),
		Target:            node.State(n.TargetProvisionState),
		StateSince:        n.ProvisionUpdatedAt,
		LastError:         n.LastError,
		Maintenance:       n.Maintenance,
		MaintenanceReason: n.MaintenanceReason,
		Reservation:       n.Reservation,
		Step:              n.step(),
		AwaitsRamdisk:     n.awaitsRamdisk(),
		Heartbeat:         n.AgentLastHeartbeat(),
		Refusals:          node.HeartbeatRefusals(node.ObjectOf(n.DriverInternalInfo)),
		User:              n.user(),
		Marked:            n.mark() != "",
		Used:              n.used(),
	}
	if leftOut, ok := n.DriverInternalInfo[node.AddressesLeftOutKey].(float64); ok {
		facts.AddressesLeftOut = int(leftOut)
	}
	if n.InspectionStartedAt != nil {
		facts.InspectionStarted = *n.InspectionStartedAt
	}
	if n.InspectionFinishedAt != nil {
		facts.InspectionFinished = *n.InspectionFinishedAt
	}
	return facts
}

// step returns the running step of cleaning, deployment or servicing.
func (n *engineNode) step() string {
	for _, shown := range []map[string]any{n.CleanStep, n.DeployStep, n.ServiceStep} {
		of, _ := shown["interface"].(string)
		if step, _ := shown["step"].(string); of != "" && step != "" {
			return of + "." + step
		}
	}
	return ""
}

// ramdiskWaits are the states in which work waits for the agent of a ramdisk.
var ramdiskWaits = []node.State{node.CleanWait, node.DeployWait, node.ServiceWait, node.RescueWait}

// awaitsRamdisk reports whether work waits for a ramdisk whose agent has not told the engine its
// URL yet.
func (n *engineNode) awaitsRamdisk() bool {
	_, known := n.DriverInternalInfo["agent_url"]
	return slices.Contains(ramdiskWaits, node.State(n.ProvisionState)) && !known
}

// user returns the field by which discovery sees that the node is in use, in words, or "".
func (n *engineNode) user() string {
	switch {
	case n.mark() != "":
		return fmt.Sprintf("extra.%s names the host %s (cluster, namespace and name)", v1alpha1.NodeMarkKey, n.mark())
	case n.Name != "":
		return "it has the name " + n.Name
	case n.InstanceUUID != "":
		return "it has the instance " + n.InstanceUUID
	case n.Owner != "":
		return "its owner is " + n.Owner
	}
	return ""
}

// used reports whether the node has an instance or an owner, or is in a state that a free node
// cannot have.
func (n *engineNode) used() bool {
	switch node.State(n.ProvisionState) {
	case node.Enroll, node.Manageable, node.Available, node.Inspecting, node.InspectWait:
		return n.InstanceUUID != "" || n.Owner != ""
	default:
		return true
	}
}

// mark returns the host that an operator wrote into the node, or "".
func (n *engineNode) mark() string {
	if mark := n.Extra[v1alpha1.NodeMarkKey]; mark != nil {
		return fmt.Sprint(mark)
	}
	return ""
}

// lastCause returns the innermost error of a failed request, because the errors around it repeat
// the URL.
func lastCause(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}
