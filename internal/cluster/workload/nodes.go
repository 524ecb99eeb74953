package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

const (
	// labelInterval is how often the labels of a host are compared with those of its Node.
	labelInterval = time.Minute
	// pollInterval is how often Nodes that are not watched are read.
	pollInterval = time.Minute
	// pageSize is the most Nodes in one answer.
	pageSize = 500
	// maxNodes and maxNodesSize limit the number of Nodes of a workload cluster and their total
	// size in bytes; Kubernetes supports 5000 Nodes. Without the limits, the administrator of the
	// workload cluster could fill the memory of the operator.
	maxNodes     = 10_000
	maxNodesSize = 128 << 20
	// listTimeout limits the time in which all pages of a list are read.
	listTimeout = 30 * time.Second
	// maxAttempts is how often a Node is read at most when somebody else changes it at the same
	// time.
	maxAttempts = 3
)

// FindNode returns the Node of a machine in its workload cluster, or nil when there is none. It is
// the Node that the Machine's nodeRef names, or any Node with the provider ID of the Machine or one
// of providerIDs. A Node with another provider ID is not the machine's, whatever its name. A Node
// without a provider ID, such as one that registered again, is the machine's if the nodeRef names
// it. If several Nodes have the provider ID, FindNode returns an error for which IsAmbiguous is
// true.
func FindNode(ctx context.Context, c client.Client, machine *clusterv1.Machine, providerIDs ...string) (*corev1.Node, error) {
	id := identity{nodeName: nodeName(machine), providerIDs: slices.Compact(append([]string{machine.Spec.ProviderID}, providerIDs...))}
	f, err := find(ctx, c, id)
	return f.node, err
}

// find reads the Node of a machine. It reads all Nodes only if the Node that the Machine's nodeRef
// names does not have the machine's provider ID.
func find(ctx context.Context, c client.Reader, id identity) (found, error) {
	if id.nodeName != "" {
		var node corev1.Node
		err := c.Get(ctx, types.NamespacedName{Name: id.nodeName}, &node)
		switch {
		case err == nil && isNamed(&node) && id.hasID(&node):
			return found{node: &node, by: byProviderID}, nil
		case client.IgnoreNotFound(err) != nil:
			return found{}, fmt.Errorf("read Node %s of the workload cluster: %w", id.nodeName, err)
		}
	}
	nodes, _, err := list(ctx, c)
	if err != nil {
		return found{}, err
	}
	return id.choose(nodes)
}

// list reads all Nodes, and returns the version of the list.
func list(ctx context.Context, c client.Reader) ([]corev1.Node, string, error) {
	return listUpTo(ctx, c, maxNodes, maxNodesSize)
}

func listUpTo(ctx context.Context, c client.Reader, most, mostSize int) ([]corev1.Node, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, fmt.Errorf("%w: its Nodes cannot be listed within %s", ErrNoAccess, listTimeout))
	defer cancel()
	var nodes []corev1.Node
	size := 0
	for next := ""; ; {
		var page corev1.NodeList
		if err := c.List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, "", fmt.Errorf("list the Nodes of the workload cluster: %w", err)
		}
		size, next = size+page.Size(), page.Continue
		nodes = append(nodes, slices.DeleteFunc(page.Items, func(n corev1.Node) bool { return !isNamed(&n) })...)
		switch {
		case len(nodes) > most, size > mostSize:
			return nil, "", errTooManyNodes
		case next == "":
			return nodes, page.ResourceVersion, nil
		}
	}
}

var errTooManyNodes = fmt.Errorf("%w: it has more than %d Nodes, or they are larger than %d MiB together", ErrNoAccess, maxNodes, maxNodesSize>>20)

// Nodes gives the Nodes of machines what they lack: provider ID, labels of the host, and no
// taint that says that they are not initialized.
type Nodes struct {
	// Clients reach the workload clusters.
	Clients *Clients
	// Live reads Metal3Machines from the API server of the management cluster.
	Live client.Reader
	// Watches tells which Nodes are watched. If it is nil, all Nodes are read each minute.
	Watches *Watches
}

// Result is what Sync found and did.
type Result struct {
	// Node is the name of the machine's Node; empty when it has none.
	Node string
	// ProviderID is the provider ID of that Node, for spec.providerID of the Metal3Machine: Cluster
	// API finds the Node only if both are the same. It is empty when the Node has none yet.
	ProviderID string
	// Reason is the reason of the condition AssociateMetal3MachineMetaData, which is true
	// only for AssociateMetal3MachineMetaDataSuccessReason, and Message is its message.
	Reason, Message string
	// RequeueAfter is when Sync has to run again without a change of a watched object; 0
	// when it need not.
	RequeueAfter time.Duration
}

// Condition returns the condition AssociateMetal3MachineMetaData.
func (r Result) Condition() metav1.Condition {
	status := metav1.ConditionFalse
	if r.Reason == v1beta2.AssociateMetal3MachineMetaDataSuccessReason {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: v1beta2.AssociateMetal3MachineMetaDataCondition, Status: status, Reason: r.Reason, Message: r.Message}
}

// Sync finds the Node of a machine whose host is provisioned and gives it what it lacks. It can be
// repeated, and has to be, because a Node may be deleted and register again. The Result is set even
// with an error, and an error means that another try may succeed.
func (n *Nodes) Sync(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine, m *v1beta2.Metal3Machine,
	h *v1alpha1.BareMetalHost, infrastructure *v1beta2.Metal3Cluster,
) (Result, error) {
	key := client.ObjectKeyFromObject(cluster)
	result, err := n.sync(ctx, key, machine, m, h, infrastructure)
	switch {
	case IsAmbiguous(err):
		result = Result{Reason: v1beta2.AmbiguousNodeReason, Message: err.Error()}
	case errors.Is(err, ErrNoAccess):
		return Result{Reason: v1beta2.WorkloadClusterUnreachableReason, Message: err.Error(), RequeueAfter: pollInterval}, nil
	case err != nil:
		return Result{Reason: v1beta2.AssociateMetal3MachineMetaDataFailedReason, Message: err.Error()}, err
	}
	result.RequeueAfter = requeue.Soonest(result.RequeueAfter, n.Watches.PollAfter(key))
	return result, nil
}

func (n *Nodes) sync(ctx context.Context, cluster types.NamespacedName, machine *clusterv1.Machine, m *v1beta2.Metal3Machine,
	h *v1alpha1.BareMetalHost, infrastructure *v1beta2.Metal3Cluster,
) (Result, error) {
	ids, err := providerIDs(m, h)
	if err != nil {
		return Result{Reason: v1beta2.ProviderIDMismatchReason, Message: err.Error()}, nil
	}
	c, err := n.Clients.Client(ctx, cluster)
	if err != nil {
		return Result{}, err
	}
	id := identity{nodeName: nodeName(machine), providerIDs: ids, hostUID: h.UID, names: []string{h.Name, m.Name}}
	wants, ignored := want(ids[0], h, infrastructure)
	for attempt := 1; ; attempt++ {
		f, err := find(ctx, c, id)
		if err != nil {
			return Result{}, err
		}
		if f.node == nil {
			return absent(id, f.foreign), nil
		}
		node, err := n.give(ctx, c, cluster, m, f, wants)
		if (apierrors.IsConflict(err) || apierrors.IsNotFound(err)) && attempt < maxAttempts {
			continue
		}
		if err != nil {
			return Result{}, err
		}
		return present(node, wants, ignored), nil
	}
}

// give writes what a Node lacks and returns the Node as it is then.
func (n *Nodes) give(ctx context.Context, c client.Client, cluster types.NamespacedName, m *v1beta2.Metal3Machine, f found, wants wanted) (*corev1.Node, error) {
	changed := wants.of(f.node)
	if changed == f.node {
		return f.node, nil
	}
	if f.by == byName {
		var all v1beta2.Metal3MachineList
		if err := n.Live.List(ctx, &all, client.InNamespace(m.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
			return nil, fmt.Errorf("list Metal3Machines, to see whose Node %s is: %w", f.node.Name, err)
		}
		if other := rival(f.node, m, all.Items); other != nil {
			return nil, &ambiguousError{fmt.Sprintf("Node %s has no provider ID, and by its name it can be that of Metal3Machine %s or of %s; start its kubelet with --provider-id or label it %s=<UID of its host>",
				f.node.Name, m.Name, other.Name, v1beta2.NodeHostLabel)}
		}
	}
	err := c.Patch(ctx, changed, client.MergeFromWithOptions(f.node, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return nil, fmt.Errorf("change Node %s of the workload cluster: %w", f.node.Name, err)
	}
	return changed, nil
}

// absent returns the result for a machine without a Node.
func absent(id identity, foreign []*corev1.Node) Result {
	if len(foreign) > 0 {
		return Result{
			Reason: v1beta2.ProviderIDMismatchReason,
			Message: fmt.Sprintf("The machine has no Node with its provider ID %q. These Nodes have its name or host: %s. If one of them is the Node of the machine, delete it so that it registers again, with the right --provider-id or without one",
				id.providerIDs[0], describe(foreign)),
		}
	}
	return Result{Reason: v1beta2.WaitingForNodeReason, Message: fmt.Sprintf("The workload cluster has no Node with provider ID %q, label %s=%s or the name %s yet",
		id.providerIDs[0], v1beta2.NodeHostLabel, id.hostUID, strings.Join(slices.Compact(id.names), " or "))}
}

// present returns the result for a machine whose Node has what Ingot gives it.
func present(node *corev1.Node, wants wanted, ignored []string) Result {
	// Both texts may be from the API server's answer to a change.
	result := Result{Node: bounded(node.Name), ProviderID: bounded(node.Spec.ProviderID), Reason: v1beta2.AssociateMetal3MachineMetaDataSuccessReason}
	if result.ProviderID == "" {
		result.Reason = v1beta2.WaitingForCloudProviderReason
		result.Message = fmt.Sprintf("Node %s has no provider ID; with cloudProviderEnabled the cloud provider of the workload cluster sets it", result.Node)
	}
	if len(wants.prefixes) > 0 {
		result.RequeueAfter = labelInterval
	}
	if len(ignored) > 0 {
		result.Message = strings.TrimSpace(fmt.Sprintf("%s Entries of annotation %s of the Metal3Cluster that are no prefixes of labels are ignored: %q",
			result.Message, v1beta2.LabelSyncPrefixesAnnotation, ignored))
	}
	return result
}
