package host

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/duplicate"
	"github.com/ingot-metal/ingot/internal/operator/nodecache"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// nodeIDField is the index of hosts by status.provisioning.ID.
const nodeIDField = "status.provisioning.ID"

// nodeIDOf returns the values of a host in the index nodeIDField.
func nodeIDOf(obj client.Object) []string {
	h, ok := obj.(*v1alpha1.BareMetalHost)
	if !ok || h.Status.Provisioning.ID == "" {
		return nil
	}
	return []string{h.Status.Provisioning.ID}
}

// conflictError is the reason why a node that matches a host cannot be its node.
type conflictError struct{ reason string }

func (e *conflictError) Error() string { return e.reason }

// links finds the nodes of hosts.
type links struct {
	client client.Client
	nodes  nodeView
}

// find looks for the node of a host that has no link yet. It returns
// provisioner.ErrNotFound when there is none, and a conflictError when several match.
// Whether the host may have the node is decided by ownership.
func (l links) find(ctx context.Context, h *v1alpha1.BareMetalHost) (provisioner.Node, error) {
	var listErr error
	n, err := l.nodes.Find(ctx, identityOf(h), func(id string) bool {
		others, err := l.hostsOf(ctx, id, h)
		listErr = errors.Join(listErr, err)
		return err != nil || len(others) > 0
	})
	var ambiguous *nodecache.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		return provisioner.Node{}, l.conflict(ctx, h, ambiguous)
	case errors.Is(err, provisioner.ErrNotFound) && listErr != nil:
		return provisioner.Node{}, listErr // a node may have been passed over
	default:
		return n, err
	}
}

// conflict returns an error that names the host whose node has the MAC address of h.
func (l links) conflict(ctx context.Context, h *v1alpha1.BareMetalHost, a *nodecache.AmbiguousError) error {
	if !a.Claimed {
		return &conflictError{a.Error()}
	}
	for _, id := range a.Nodes {
		owners, err := l.hostsOf(ctx, id, h)
		if err != nil {
			return err
		}
		if len(owners) > 0 {
			return &conflictError{fmt.Sprintf("spec.bootMACAddress: node %s, which has this address, belongs to host %s/%s; %s",
				id, owners[0].Namespace, owners[0].Name, duplicate.Advice(h, owners[0]))}
		}
	}
	return &conflictError{a.Error()} // its host has just gone
}

// decideLink returns why the node cannot become the host's, or "". owners are other
// hosts that have the node already.
func decideLink(h *v1alpha1.BareMetalHost, n provisioner.Node, mark provisioner.Mark, owners []*v1alpha1.BareMetalHost) string {
	step, reason := decideClaim(h, n, mark, "")
	if (step == claimLock || step == claimNeeded) && len(owners) > 0 {
		owner := owners[0]
		return fmt.Sprintf("node %s belongs to host %s/%s; %s", n.ID, owner.Namespace, owner.Name, duplicate.Advice(h, owner))
	}
	return reason
}

func identityOf(h *v1alpha1.BareMetalHost) provisioner.Identity {
	return provisioner.Identity{
		ID:   h.Status.Provisioning.ID,
		Name: provisioner.NodeName(h.Namespace, h.Name),
		MAC:  h.Spec.BootMACAddress,
	}
}

// rival returns an older host with the same node, or nil. Two hosts can get the
// same node when they are linked at the same moment; the younger one gives it up.
func (l links) rival(ctx context.Context, nodeID string, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	others, err := l.hostsOf(ctx, nodeID, h)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		if older(other, h) {
			return other, nil
		}
	}
	return nil, nil
}

// hostsOf returns the hosts that have a node, except h.
func (l links) hostsOf(ctx context.Context, nodeID string, h *v1alpha1.BareMetalHost) ([]*v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := l.client.List(ctx, &hosts, client.MatchingFields{nodeIDField: nodeID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts of node %s: %w", nodeID, err)
	}
	var others []*v1alpha1.BareMetalHost
	for i := range hosts.Items {
		if hosts.Items[i].UID != h.UID {
			others = append(others, &hosts.Items[i])
		}
	}
	return others, nil
}

func older(a, b *v1alpha1.BareMetalHost) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return client.ObjectKeyFromObject(a).String() < client.ObjectKeyFromObject(b).String()
}
