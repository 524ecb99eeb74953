package discovery

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
)

// skipMemory says for which reason each node was skipped in the last poll, and since when. The
// status may have room for only some of these nodes.
type skipMemory struct {
	nodes map[string]skipRecord
	// partial is true if skipped nodes may be missing, because the memory comes from a status that
	// had no room for them.
	partial bool
}

type skipRecord struct {
	reason discoveryv1.SkipReason
	since  metav1.Time
	// needsPerson is true once a person had to do something about the node.
	needsPerson bool
}

// memoryOf returns the memory of the last poll. If another process made that poll, memoryOf takes
// the memory from the status.
func memoryOf(last *evaluation, status *discoveryv1.BareMetalHostDiscoveryStatus) skipMemory {
	if last != nil {
		return last.skipped
	}
	m := skipMemory{nodes: map[string]skipRecord{}, partial: int(status.Counts.Skipped) > len(status.Skipped)}
	for _, s := range status.Skipped {
		m.nodes[s.NodeID] = skipRecord{s.Reason, s.Since, needsPerson(s)}
	}
	return m
}

// update sets since when each node has been skipped for its reason. It returns the memory of this
// poll, and the nodes that are newly skipped, are skipped for a new reason, or newly need a person.
func (m skipMemory) update(skipped []discoveryv1.SkippedNode, now metav1.Time) (next skipMemory, fresh []discoveryv1.SkippedNode) {
	next.nodes = make(map[string]skipRecord, len(skipped))
	for i := range skipped {
		s := &skipped[i]
		s.Since = now
		old, known := m.nodes[s.NodeID]
		same, person := known && old.reason == s.Reason, needsPerson(*s)
		if same {
			s.Since = old.since
		}
		if same && person && !old.needsPerson || !same && (known || !m.partial) {
			fresh = append(fresh, *s)
		}
		next.nodes[s.NodeID] = skipRecord{s.Reason, s.Since, person || same && old.needsPerson}
	}
	return next, fresh
}

// skippedList returns the list for the status, sorted by node and not longer than the schema
// allows. If the list has to leave out nodes, it keeps those that a person can do something about.
func skippedList(skipped []discoveryv1.SkippedNode) []discoveryv1.SkippedNode {
	if len(skipped) == 0 {
		return nil
	}
	list := slices.Clone(skipped)
	slices.SortFunc(list, func(a, b discoveryv1.SkippedNode) int {
		return cmp.Or(worth(b)-worth(a), strings.Compare(a.NodeID, b.NodeID))
	})
	list = list[:min(len(list), maxSkipped)]
	slices.SortFunc(list, func(a, b discoveryv1.SkippedNode) int { return strings.Compare(a.NodeID, b.NodeID) })
	return list
}

func worth(s discoveryv1.SkippedNode) int {
	if needsPerson(s) {
		return 1
	}
	return 0
}

// messageUnreadable begins the message about a node that could not be read. The next attempt may
// succeed.
const messageUnreadable = "the node cannot be read, which is tried again after a wait: "

// needsPerson reports whether a person has to do something about a skipped node, because its reason
// is neither temporary nor intended by the spec.
func needsPerson(s discoveryv1.SkippedNode) bool {
	switch s.Reason {
	case discoveryv1.SkipNodeBusy, discoveryv1.SkipIgnored, discoveryv1.SkipTombstone:
		return false
	case discoveryv1.SkipNoInventory:
		return !strings.HasPrefix(s.Message, messageUnreadable)
	default:
		return true
	}
}
