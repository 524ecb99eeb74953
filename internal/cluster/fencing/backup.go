package fencing

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
)

// maxBackup is the longest value of the annotation with a backup, in bytes. All annotations of
// an object together may have 256 KiB.
const maxBackup = 64 << 10

// backup is what a deleted Node had and the Node gets again when it is back: the value of the
// annotation remediation.metal3.io/restore-pending.
type backup struct {
	// Node is the Node that it was taken from.
	Node        nodeRef           `json:"node"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	// Dropped is how many labels and annotations had no room.
	Dropped int `json:"dropped,omitempty"`
}

// passingTaints are the prefixes of the keys of taints that describe the current condition of a
// Node. A backup leaves such taints out, because whoever sets them also knows when they end.
var passingTaints = []string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/"}

// backupOf returns the backup that a Machine has, or nil when it has none.
func backupOf(m *clusterv1.Machine) *backup {
	if _, ok := m.Annotations[v1beta2.RestorePendingAnnotation]; !ok {
		return nil
	}
	var read backup
	// What cannot be read has nothing to restore.
	decode(m.Annotations, v1beta2.RestorePendingAnnotation, &read)
	return &read
}

// takeBackup returns a backup of node. It merges in what an earlier backup has that was not
// restored yet, as far as node lacks it. If the backup is longer than maxBackup, takeBackup drops
// the longest annotations, and after them the longest labels, until it fits.
func takeBackup(node *corev1.Node, earlier *backup) backup {
	b := backup{
		Node:        nodeRef{Name: node.Name, UID: node.UID},
		Labels:      map[string]string{},
		Annotations: map[string]string{},
		Taints:      lastingTaints(node.Spec.Taints),
	}
	if earlier != nil {
		maps.Copy(b.Labels, earlier.Labels)
		maps.Copy(b.Annotations, earlier.Annotations)
		b.Taints = append(b.Taints, missingTaints(earlier.Taints, b.Taints)...)
		b.Dropped = earlier.Dropped
	}
	maps.Copy(b.Labels, node.Labels)
	maps.Copy(b.Annotations, node.Annotations)
	if excess := len(encode(b)) - maxBackup; excess > 0 {
		b.Dropped += nodebackup.Drop(excess+len(`,"dropped":9999`), b.Annotations, b.Labels)
	}
	return b
}

// restore adds to node the labels, annotations and taints of the backup that node lacks. What node
// has stays as it is. restore reports whether anything was missing.
func (b *backup) restore(node *corev1.Node) bool {
	labels, annotations := node.Labels, node.Annotations
	node.Labels, node.Annotations = nodebackup.Merged(b.Labels, labels), nodebackup.Merged(b.Annotations, annotations)
	taints := missingTaints(b.Taints, node.Spec.Taints)
	node.Spec.Taints = append(slices.Clone(node.Spec.Taints), taints...)
	return len(node.Labels) > len(labels) || len(node.Annotations) > len(annotations) || len(taints) > 0
}

// isFor reports whether the backup is to be restored to the Node with this UID. The Node that the
// backup was taken from needs no restoring.
func (b *backup) isFor(uid types.UID) bool { return b.Node.UID != uid }

func lastingTaints(taints []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(passingTaints, func(prefix string) bool { return strings.HasPrefix(t.Key, prefix) })
	})
}

// missingTaints returns the taints that others lack. Two taints are the same if key and effect are
// the same.
func missingTaints(taints, others []corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(others, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	})
}
