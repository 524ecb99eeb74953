package discovery

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// Reasons of events on a discovery resource.
const (
	eventHostDiscovered    = "HostDiscovered"
	eventHostSkipped       = "HostSkipped"
	eventDiscoveryConflict = "DiscoveryConflict"
	eventEngineUnreachable = "EngineUnreachable"
)

// actionDiscover is the action of events that do not need one of their own.
const actionDiscover = "Discover"

// maxSkipEvents bounds the events about skipped nodes of one poll. The status
// lists them all.
const maxSkipEvents = 3

// announce publishes an event about a created host.
func (r *Reconciler) announce(resource *discoveryv1.BareMetalHostDiscovery, host *v1alpha1.BareMetalHost, c creation) {
	note := "Created host %s for node %s with boot MAC address %s"
	if readsAsUUID(resource.Spec.ResourceNameTemplate, host.Name) {
		note += ", with a prefix because a host must not be named like a UUID"
	}
	r.Recorder.Eventf(resource, host, corev1.EventTypeNormal, eventHostDiscovered, actionDiscover, note,
		host.Name, c.node.ID, c.facts.BootMAC)
}

// reportSkipped publishes events about nodes that are newly skipped, or for a new reason.
func (r *Reconciler) reportSkipped(resource *discoveryv1.BareMetalHostDiscovery, now []discoveryv1.SkippedNode) {
	published := 0
	for _, s := range now {
		if !worthAnEvent[s.Reason] {
			continue
		}
		old := findSkipped(resource.Status.Skipped, s.NodeID)
		if old != nil && old.Reason == s.Reason {
			continue
		}
		if published++; published > maxSkipEvents {
			return
		}
		// The reason as action keeps events apart, which would be folded into one.
		r.Recorder.Eventf(resource, nil, corev1.EventTypeWarning, eventHostSkipped, string(s.Reason), "No host was created for node %s, %s: %s", s.NodeID, s.Reason, s.Message)
	}
}

// worthAnEvent are the reasons that need action by a user. The
// others are temporary or follow from the spec.
var worthAnEvent = map[discoveryv1.SkipReason]bool{
	discoveryv1.SkipMissingDetail:   true,
	discoveryv1.SkipMissingMAC:      true,
	discoveryv1.SkipDuplicateMAC:    true,
	discoveryv1.SkipNameConflict:    true,
	discoveryv1.SkipNameInvalid:     true,
	discoveryv1.SkipLimitReached:    true,
	discoveryv1.SkipCreateForbidden: true,
}

func (r *Reconciler) warn(resource runtime.Object, reason, note string, args ...any) {
	r.Recorder.Eventf(resource, nil, corev1.EventTypeWarning, reason, actionDiscover, note, args...)
}
