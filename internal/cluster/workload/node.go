package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// uninitializedTaint keeps pods from a Node until a cloud provider has initialized it. kubelet
// sets it when it is started with --cloud-provider=external.
const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// maxName and maxText limit, in bytes, the name of a Node and each other text of it that is kept or
// shown: the API server of the workload cluster may send any text.
const (
	maxName = 253 // the limit of Kubernetes
	maxText = 512 // the limit of spec.providerID of a Metal3Machine
)

// isNamed reports whether the name of a Node has a length that Kubernetes allows. Other Nodes are
// ignored.
func isNamed(node *corev1.Node) bool { return len(node.Name) <= maxName }

// bounded returns a text of a Node, or nothing when the text is too long to be of use.
func bounded[T ~string](text T) T {
	if len(text) > maxText {
		return ""
	}
	return text
}

// ProviderID returns the provider ID of a machine on a host.
func ProviderID(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) string {
	return v1beta2.ProviderIDPrefix + h.Namespace + "/" + h.Name + "/" + m.Name
}

// providerIDs returns the provider IDs that the Node of a machine may have; a Node without one gets
// the first. Earlier versions made them of the UID of the host alone. Such an ID is kept where the
// Metal3Machine has it, also after a move, when the host has another UID. If the Metal3Machine has
// the ID of another machine, the error says what to do.
func providerIDs(m *v1beta2.Metal3Machine, h *v1alpha1.BareMetalHost) ([]string, error) {
	own, byUID := ProviderID(m, h), v1beta2.ProviderIDPrefix+string(h.UID)
	switch has := m.Spec.ProviderID; {
	case has == "", has == own:
		return []string{own, byUID}, nil
	case has == byUID:
		return []string{byUID, own}, nil
	case isByUID(has):
		return []string{has, own, byUID}, nil
	default:
		return nil, fmt.Errorf("spec.providerID of Metal3Machine %s/%s is %q, want %q; remove it or delete the Machine", m.Namespace, m.Name, has, own)
	}
}

func isByUID(providerID string) bool {
	id, ok := strings.CutPrefix(providerID, v1beta2.ProviderIDPrefix)
	return ok && uuid.Validate(id) == nil
}

// identity is what identifies the Node of a machine. An empty value matches no Node.
type identity struct {
	nodeName    string // Machine.status.nodeRef.name
	providerIDs []string
	hostUID     types.UID
	names       []string
}

// evidence is what identified a Node, the strongest first.
type evidence int

const (
	byProviderID evidence = iota
	byNodeRef
	byHostUID
	byName
)

// found is what is known of the Node of a machine.
type found struct {
	node *corev1.Node // nil when there is none
	by   evidence
	// foreign are Nodes that would be the machine's if they did not have another provider ID.
	foreign []*corev1.Node
}

// hasID reports whether a Node has a provider ID of the machine.
func (id identity) hasID(node *corev1.Node) bool {
	return node.Spec.ProviderID != "" && slices.Contains(id.providerIDs, node.Spec.ProviderID)
}

// choose returns the Node of a machine among all Nodes of its cluster. The strongest evidence
// counts; of provider IDs, the first one. If several Nodes have this evidence, choose returns an
// error. It never chooses a Node with a provider ID that is not the machine's.
func (id identity) choose(nodes []corev1.Node) (found, error) {
	for _, want := range id.providerIDs {
		node, err := only(nodes, func(n *corev1.Node) bool { return want != "" && n.Spec.ProviderID == want })
		if node != nil || err != nil {
			return found{node: node, by: byProviderID}, err
		}
	}
	host := func(n *corev1.Node) string { return n.Labels[v1beta2.NodeHostLabel] }
	matches := map[evidence]func(*corev1.Node) bool{
		byNodeRef: func(n *corev1.Node) bool { return n.Name == id.nodeName },
		byHostUID: func(n *corev1.Node) bool { return id.hostUID != "" && host(n) == string(id.hostUID) },
		byName: func(n *corev1.Node) bool {
			return slices.Contains(id.names, n.Name) && (host(n) == "" || host(n) == string(id.hostUID))
		},
	}
	var foreign []*corev1.Node
	for _, by := range []evidence{byNodeRef, byHostUID, byName} {
		node, err := only(nodes, func(n *corev1.Node) bool { return n.Spec.ProviderID == "" && matches[by](n) })
		if node != nil || err != nil {
			return found{node: node, by: by}, err
		}
		for i := range nodes {
			if n := &nodes[i]; matches[by](n) && !slices.Contains(foreign, n) {
				foreign = append(foreign, n)
			}
		}
	}
	return found{foreign: foreign}, nil
}

// ambiguousError means that several Nodes can be that of a machine.
type ambiguousError struct{ message string }

func (e *ambiguousError) Error() string { return e.message }

// IsAmbiguous reports whether an error of FindNode means that several Nodes can be that of the
// machine.
func IsAmbiguous(err error) bool {
	var ambiguous *ambiguousError
	return errors.As(err, &ambiguous)
}

// only returns the one Node that matches, nil when there is none, and an error when there are
// several.
func only(nodes []corev1.Node, matches func(*corev1.Node) bool) (*corev1.Node, error) {
	var all []*corev1.Node
	for i := range nodes {
		if matches(&nodes[i]) {
			all = append(all, &nodes[i])
		}
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	default:
		return nil, &ambiguousError{fmt.Sprintf("Nodes %s can all be that of the machine; delete those that are not, or start their kubelets with their own --provider-id",
			describe(all))}
	}
}

// describe returns the names of Nodes and their provider IDs.
func describe(nodes []*corev1.Node) string {
	var texts []string
	for _, n := range nodes {
		id := "no provider ID"
		switch {
		case bounded(n.Spec.ProviderID) != "":
			id = fmt.Sprintf("provider ID %q", n.Spec.ProviderID)
		case n.Spec.ProviderID != "":
			id = fmt.Sprintf("a provider ID of more than %d bytes", maxText)
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", n.Name, id))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// rival returns another machine of the cluster that a Node may be named after, or nil. If there is
// one, a Node that is known by its name alone is given to no machine, because a provider ID cannot
// be taken back.
func rival(node *corev1.Node, m *v1beta2.Metal3Machine, all []v1beta2.Metal3Machine) *v1beta2.Metal3Machine {
	for i := range all {
		other := &all[i]
		_, host, _ := strings.Cut(other.Annotations[v1beta2.HostAnnotation], "/")
		if other.Name != m.Name && (other.Name == node.Name || host == node.Name) {
			return other
		}
	}
	return nil
}

// wanted is what a Node should have.
type wanted struct {
	providerID string            // empty: somebody else sets it
	initialize bool              // nobody else removes the taint that Nodes have until they are initialized
	prefixes   []string          // of labels that are synced; none when they are not
	labels     map[string]string // of the host
}

// want returns what the Node of a machine on a host should have, and which entries of the
// annotation for labels are ignored because they are not prefixes.
func want(providerID string, h *v1alpha1.BareMetalHost, cluster *v1beta2.Metal3Cluster) (w wanted, ignored []string) {
	w.labels = h.Labels
	w.prefixes, ignored = parsePrefixes(cluster.Annotations[v1beta2.LabelSyncPrefixesAnnotation])
	if enabled := cluster.Spec.CloudProviderEnabled; enabled == nil || !*enabled {
		w.providerID, w.initialize = providerID, true
	}
	return w, ignored
}

// parsePrefixes returns the prefixes of labels in their annotation. A prefix is what comes before
// the slash in the key of a label; commas separate the prefixes. Spaces, empty entries, a slash at
// the end and repetitions do not matter.
func parsePrefixes(annotation string) (prefixes, ignored []string) {
	for entry := range strings.SplitSeq(annotation, ",") {
		entry = strings.TrimSuffix(strings.TrimSpace(entry), "/")
		switch {
		case entry == "" || slices.Contains(prefixes, entry):
		case len(validation.IsDNS1123Subdomain(entry)) > 0:
			ignored = append(ignored, entry)
		default:
			prefixes = append(prefixes, entry)
		}
	}
	return prefixes, ignored
}

// of returns the Node as it should be: node itself when it lacks nothing, otherwise a copy. A
// provider ID that the Node has stays, because Kubernetes does not let it change.
func (w wanted) of(node *corev1.Node) *corev1.Node {
	changed := node.DeepCopy()
	if changed.Spec.ProviderID == "" {
		changed.Spec.ProviderID = w.providerID
	}
	if w.initialize {
		changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitializedTaint })
	}
	w.syncLabels(changed)
	if changed.Spec.ProviderID == node.Spec.ProviderID && len(changed.Spec.Taints) == len(node.Spec.Taints) &&
		maps.Equal(changed.Labels, node.Labels) && maps.Equal(changed.Annotations, node.Annotations) {
		return node
	}
	return changed
}

// syncLabels gives a Node those labels of its host that have one of the prefixes, and removes
// labels with such a prefix that the host does not have. Kubernetes and its tools set labels of
// kubernetes.io and k8s.io on Nodes themselves. syncLabels removes only those of them that came
// from the host, which an annotation of the Node lists.
func (w wanted) syncLabels(node *corev1.Node) {
	if len(w.prefixes) == 0 {
		return
	}
	before := strings.Split(node.Annotations[v1beta2.SyncedLabelsAnnotation], ",")
	var protected []string
	for key, value := range w.labels {
		if !w.syncs(key) {
			continue
		}
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[key] = value
		if isProtected(key) {
			protected = append(protected, key)
		}
	}
	for key := range node.Labels {
		if _, has := w.labels[key]; !has && w.syncs(key) && (!isProtected(key) || slices.Contains(before, key)) {
			delete(node.Labels, key)
		}
	}
	delete(node.Annotations, v1beta2.SyncedLabelsAnnotation)
	if len(protected) > 0 {
		slices.Sort(protected)
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[v1beta2.SyncedLabelsAnnotation] = strings.Join(protected, ",")
	}
}

// syncs reports whether a label has one of the prefixes. NodeHostLabel, by which Nodes are found,
// is never synced.
func (w wanted) syncs(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	return ok && slices.Contains(w.prefixes, prefix) && key != v1beta2.NodeHostLabel
}

// isProtected reports whether a label is in a domain that is reserved for Kubernetes.
func isProtected(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	for _, domain := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == domain || strings.HasSuffix(prefix, "."+domain) {
			return true
		}
	}
	return false
}

// nodeName returns the name of the Node that Cluster API has found for a Machine.
func nodeName(machine *clusterv1.Machine) string { return machine.Status.NodeRef.Name }
