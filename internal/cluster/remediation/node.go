package remediation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/nodebackup"
)

// outOfService is the taint with which Kubernetes deletes the pods of a Node that is off and
// detaches its volumes.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// taintVersion is the first version of Kubernetes in which every cluster acts on that taint.
var taintVersion = version.MajorMinor(1, 28)

const (
	// podNodeField is the field by which the API server selects pods of a Node.
	podNodeField = "spec.nodeName"
	// pageSize is how many volume attachments one answer may have. The list has those of all Nodes.
	pageSize = 500
	// occupantTimeout bounds the time in which pods and volume attachments are read.
	occupantTimeout = time.Minute
	// maxBackup is the most that the annotations with the backup of a Node may have together, in
	// bytes. All annotations of an object together may have 256 KiB.
	maxBackup = 192 << 10
)

// taintStateOf returns whose taint a Node has. The Node itself says so, unless CAPM3 has set the
// taint in an attempt that is taken over.
func taintStateOf(r *v1beta2.Metal3Remediation, node *corev1.Node, inherited bool) taintState {
	there := slices.ContainsFunc(node.Spec.Taints, isOutOfService)
	switch {
	case node.Annotations[v1beta2.OutOfServiceAnnotation] == client.ObjectKeyFromObject(r).String():
		return ourTaint
	case there && (inherited || r.Annotations[v1beta2.OutOfServiceAnnotation] == node.Name):
		return ourTaint
	case there:
		return foreignTaint
	default:
		return noTaint
	}
}

func isOutOfService(t corev1.Taint) bool {
	return t.Key == outOfService.Key && t.Effect == outOfService.Effect
}

func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// unidentifiedNode returns a Node without a provider ID that may be the one of a machine, or nil. It
// may be if it has the label of the host, or the name of the host or of the machine. It gets its
// provider ID when the host is known to be deployed.
func unidentifiedNode(ctx context.Context, c client.Client, h *v1alpha1.BareMetalHost, m *v1beta2.Metal3Machine) (*corev1.Node, error) {
	var labelled corev1.NodeList
	if err := c.List(ctx, &labelled, client.MatchingLabels{v1beta2.NodeHostLabel: string(h.UID)}, client.Limit(pageSize)); err != nil {
		return nil, fmt.Errorf("list the Nodes of host %s: %w", h.Name, err)
	}
	nodes := labelled.Items
	for _, name := range []string{h.Name, m.Name} {
		var named corev1.Node
		err := c.Get(ctx, client.ObjectKey{Name: name}, &named)
		switch {
		case err == nil:
			nodes = append(nodes, named)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read Node %s: %w", name, err)
		}
	}
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Spec.ProviderID == "" })
	if i < 0 {
		return nil, nil
	}
	return &nodes[i], nil
}

// addTaint sets the taint and says whose it is.
func addTaint(r *v1beta2.Metal3Remediation, node *corev1.Node) {
	node.Spec.Taints = append(node.Spec.Taints, outOfService)
	annotate(node, v1beta2.OutOfServiceAnnotation, client.ObjectKeyFromObject(r).String())
}

// removeTaint removes the taint and the annotation that says whose it is.
func removeTaint(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isOutOfService)
	delete(node.Annotations, v1beta2.OutOfServiceAnnotation)
}

// occupant returns the name of a pod or a volume that has to go from a Node that is out of service,
// or "" if there is none. Pods that tolerate the taint stay, and pods that ended need nothing.
func occupant(ctx context.Context, c client.Client, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, occupantTimeout)
	defer cancel()
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{podNodeField: node}); err != nil {
		return "", fmt.Errorf("list pods of Node %s: %w", node, err)
	}
	for _, p := range pods.Items {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !ended && !tolerates(ctx, p.Spec.Tolerations) {
			return fmt.Sprintf("pod %s/%s", p.Namespace, p.Name), nil
		}
	}
	for next := ""; ; {
		var volumes storagev1.VolumeAttachmentList
		if err := c.List(ctx, &volumes, client.Limit(pageSize), client.Continue(next)); err != nil {
			return "", fmt.Errorf("list volume attachments: %w", err)
		}
		for _, v := range volumes.Items {
			if v.Spec.NodeName == node {
				return "volume attachment " + v.Name, nil
			}
		}
		if next = volumes.Continue; next == "" {
			return "", nil
		}
	}
}

// tolerates reports whether a pod stays for ever on a Node that is out of service.
func tolerates(ctx context.Context, all []corev1.Toleration) bool {
	return slices.ContainsFunc(all, func(t corev1.Toleration) bool {
		return t.TolerationSeconds == nil && t.ToleratesTaint(log.FromContext(ctx), &outOfService, false)
	})
}

// backUp records labels and annotations of a Node. If they are longer than maxBackup, backUp drops
// the longest annotations, and after them the longest labels, until they fit.
func backUp(r *v1beta2.Metal3Remediation, node *corev1.Node) {
	labels, annotations := nodebackup.Merged(node.Labels, nil), nodebackup.Merged(node.Annotations, nil)
	size := len(nodebackup.Encode(labels)) + len(nodebackup.Encode(annotations))
	nodebackup.Drop(size-maxBackup, annotations, labels)
	annotate(r, v1beta2.NodeLabelsBackupAnnotation, nodebackup.Encode(labels))
	annotate(r, v1beta2.NodeAnnotationsBackupAnnotation, nodebackup.Encode(annotations))
}

func hasBackup(r *v1beta2.Metal3Remediation) bool {
	_, labels := r.Annotations[v1beta2.NodeLabelsBackupAnnotation]
	_, annotations := r.Annotations[v1beta2.NodeAnnotationsBackupAnnotation]
	return labels || annotations
}

// putBack adds to a Node what it lacks of the backup, and reports whether it lacked anything. What
// the Node has stays. A backup that cannot be read counts as empty.
func putBack(r *v1beta2.Metal3Remediation, node *corev1.Node) bool {
	labels := missing(r.Annotations[v1beta2.NodeLabelsBackupAnnotation], node.Labels)
	annotations := missing(r.Annotations[v1beta2.NodeAnnotationsBackupAnnotation], node.Annotations)
	node.Labels, node.Annotations = nodebackup.Merged(node.Labels, labels), nodebackup.Merged(node.Annotations, annotations)
	return len(labels)+len(annotations) > 0
}

// missing returns the pairs of a recorded backup that there lacks.
func missing(record string, there map[string]string) map[string]string {
	var kept map[string]string
	if json.Unmarshal([]byte(record), &kept) != nil {
		return nil
	}
	maps.DeleteFunc(kept, func(key, _ string) bool {
		_, has := there[key]
		return has || key == v1beta2.OutOfServiceAnnotation
	})
	return kept
}

// annotate sets an annotation.
func annotate(obj client.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
