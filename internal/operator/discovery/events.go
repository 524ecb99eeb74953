package discovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

// Reasons of events. The last one is on a new host, the others on a discovery resource.
const (
	eventHostDiscovered        = "HostDiscovered"
	eventHostSkipped           = "HostSkipped"
	eventDiscoveryConflict     = "DiscoveryConflict"
	eventEngineUnreachable     = "EngineUnreachable"
	eventDuplicateSerialNumber = "DuplicateSerialNumber"
)

// actionDiscover is the action of events that need no action of their own.
const actionDiscover = "Discover"

// maxNames is the largest number of new hosts that an event names.
const maxNames = 10

// announce publishes one event about all hosts that a poll created. It also publishes one event on
// each new host whose machine may already have another host.
func (r *Reconciler) announce(resource *discoveryv1.BareMetalHostDiscovery, made []madeHost) {
	if len(made) == 0 {
		return
	}
	note := createdNote(made)
	if guarded := slices.IndexFunc(made, func(m madeHost) bool {
		return readsAsUUID(resource.Spec.ResourceNameTemplate, m.host.Name)
	}); guarded >= 0 {
		note += fmt.Sprintf("; names as that of %s have a prefix because a host must not be named like a UUID", made[guarded].host.Name)
	}
	// Naming the first host keeps this event from being folded into that of the next poll.
	r.Recorder.Eventf(resource, made[0].host, corev1.EventTypeNormal, eventHostDiscovered, actionDiscover, "%s", note)
	for _, m := range made {
		if m.older.Name != "" {
			r.warn(m.host, eventDuplicateSerialNumber,
				"Host %s, which has no BMC either, shows the same vendor and serial number, %s: if this is the same machine with other NICs, delete that host", m.older, cut(m.facts.Chassis.serial))
		}
	}
}

func createdNote(made []madeHost) string {
	if len(made) == 1 {
		return fmt.Sprintf("Created host %s for node %s with boot MAC address %s", made[0].host.Name, made[0].node.ID, made[0].host.Spec.BootMACAddress)
	}
	names := make([]string, 0, len(made))
	for _, m := range made {
		names = append(names, m.host.Name)
	}
	slices.Sort(names)
	note := fmt.Sprintf("Created %d hosts: %s", len(made), strings.Join(names[:min(len(names), maxNames)], ", "))
	if left := len(names) - maxNames; left > 0 {
		note += fmt.Sprintf(" and %d more", left)
	}
	return note
}

// reportSkipped publishes one event per reason about nodes that are newly skipped, or skipped for a
// new reason. The status lists the nodes.
func (r *Reconciler) reportSkipped(resource *discoveryv1.BareMetalHostDiscovery, fresh []discoveryv1.SkippedNode) {
	first, others := map[discoveryv1.SkipReason]discoveryv1.SkippedNode{}, map[discoveryv1.SkipReason]int{}
	for _, s := range fresh {
		if !needsPerson(s) {
			continue
		}
		if _, there := first[s.Reason]; there {
			others[s.Reason]++
		} else {
			first[s.Reason] = s
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(first)) {
		s := first[reason]
		note := fmt.Sprintf("No host was created for node %s, %s: %s", s.NodeID, reason, s.Message)
		if n := others[reason]; n > 0 {
			note = fmt.Sprintf("No host was created for node %s and %d others, %s: %s", s.NodeID, n, reason, s.Message)
		}
		// With the reason as action, events with different reasons are not folded into one.
		r.Recorder.Eventf(resource, nil, corev1.EventTypeWarning, eventHostSkipped, string(reason), "%s", note)
	}
}

func (r *Reconciler) warn(resource runtime.Object, reason, note string, args ...any) {
	r.Recorder.Eventf(resource, nil, corev1.EventTypeWarning, reason, actionDiscover, note, args...)
}
