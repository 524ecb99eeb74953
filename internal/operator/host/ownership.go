package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// ownership decides which node a host may use. What a host says about itself is
// written by those who may write hosts, in their namespace only, so it proves nothing:
// a node is a host's when it carries the host's mark, and a host can mark only a node
// that nobody uses, or one with the host's name. A node in use that has the name may be
// that of another cluster's host, so then the host has to be known as the one that uses it.
//
// A host gets the node's ID in its status first and the mark after that, so that a
// deletion in between finds the node. Every pass that acts on a node reads it and looks
// for the mark before; the API has no precondition that would do both at once. What
// remains is the time between that reading and the request that follows at once. Only a
// person, or the operator of another cluster that claims the same free node at the same
// moment, could change the mark in it. The last claim wins, and the host whose
// mark was replaced gives the node up in its next pass.
type ownership struct {
	links
	// cluster is the identity of the cluster in marks.
	cluster string
	engine  provisioner.Lifecycle
}

// claim is what a host has to do before it may use a node.
type claim int

const (
	claimHeld    claim = iota // nothing: the node carries the host's mark
	claimNeeded               // the node has to be marked
	claimReturn               // the host did not move after all: its release has to end
	claimMoved                // the same host in another cluster has released the node
	claimAwaited              // it has not yet
	claimRefused              // somebody else uses the node
)

// decideClaim is pure. The reason explains a refusal. moving is the digest of the annotation
// with a status that the host is restored from, "" for other hosts.
func decideClaim(h *v1alpha1.BareMetalHost, n provisioner.Node, mark provisioner.Mark, moving string) (claim, string) {
	switch {
	case n.Mark == mark && n.Released != "":
		return claimReturn, ""
	case n.Mark == mark:
		return claimHeld, ""
	case moving != "" && n.Mark.Moves(mark) && n.Released == moving:
		return claimMoved, ""
	case moving != "" && n.Mark.Moves(mark):
		return claimAwaited, ""
	case n.Mark != "" || n.Name != provisioner.NodeName(h.Namespace, h.Name):
	case n.UsedFor() == "" || uses(h, n):
		return claimNeeded, ""
	default:
		return claimRefused, fmt.Sprintf("node %s has the name of this host and no mark, and it is in use: %s. It may be another cluster's; if it is this host's, "+
			"whoever manages the engine sets extra.%s of the node to %s", n.ID, n.UsedFor(), v1alpha1.NodeMarkKey, mark)
	}
	if host, here := n.Mark.Neighbour(mark); here {
		return claimRefused, fmt.Sprintf("node %s is in use: it belongs to host %s; delete one of the two hosts, or correct the address", n.ID, host)
	}
	if somebody := n.BelongsTo(); somebody != "" {
		return claimRefused, fmt.Sprintf("node %s is in use: %s", n.ID, somebody)
	}
	return claimNeeded, ""
}

// uses reports whether a node without a mark is known to be the host's: the host is linked to it,
// or it shows the host as its instance.
func uses(h *v1alpha1.BareMetalHost, n provisioner.Node) bool {
	return h.Status.Provisioning.ID == n.ID || n.InstanceID != "" && n.InstanceID == string(h.UID)
}

// mark is the host's mark.
func (o ownership) mark(h *v1alpha1.BareMetalHost) provisioner.Mark {
	return provisioner.MarkOf(o.cluster, h.Namespace, h.Name)
}

// check returns a conflictError unless the host, which has no node yet, may have this
// one. It only reads.
func (o ownership) check(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node) error {
	others, err := o.hostsOf(ctx, n.ID, h)
	if err != nil {
		return err
	}
	if reason := decideLink(h, n, o.mark(h), others); reason != "" {
		return &conflictError{reason}
	}
	return nil
}

// hold makes sure that a node which was just read is the host's, marks it if
// that is still to be done, and returns it. It returns a conflictError when the node
// is not the host's.
func (o ownership) hold(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node) (provisioner.Node, error) {
	mark := o.mark(h)
	switch step, reason := decideClaim(h, n, mark, ""); step {
	case claimHeld:
		return n, nil
	case claimReturn:
		return o.take(ctx, n, mark)
	case claimRefused:
		return provisioner.Node{}, &conflictError{reason}
	}
	rival, err := o.rival(ctx, n.ID, h)
	if err != nil {
		return provisioner.Node{}, err
	}
	if rival != nil {
		return provisioner.Node{}, &conflictError{fmt.Sprintf("node %s belongs to the older host %s/%s", n.ID, rival.Namespace, rival.Name)}
	}
	marked, err := o.engine.Claim(ctx, n.ID, mark)
	if err != nil {
		return provisioner.Node{}, refused(v1alpha1.OperationRegister, "mark as this host's", n.ID, err)
	}
	o.nodes.Note(marked)
	if marked.Mark != mark {
		return provisioner.Node{}, &conflictError{fmt.Sprintf("node %s does not keep the mark of this host", n.ID)}
	}
	return marked, nil
}

// nodeOf returns the node of a host that gives it up, which is marked. It is the one whose ID
// the host has, or else the one that was created for it: the operator may have ended
// before it stored the ID. It returns provisioner.ErrNotFound when there is none, and a
// conflictError when that with the ID is not the host's.
func (o ownership) nodeOf(ctx context.Context, h *v1alpha1.BareMetalHost) (provisioner.Node, error) {
	n, err := provisioner.Node{}, provisioner.ErrNotFound
	if id := h.Status.Provisioning.ID; id != "" {
		n, err = o.nodes.Fetch(ctx, id)
	}
	switch {
	case err == nil:
		return o.hold(ctx, h, n)
	case !errors.Is(err, provisioner.ErrNotFound), !h.HasBMC():
		return n, err
	}
	n, err = o.nodes.Find(ctx, provisioner.Identity{Name: provisioner.NodeName(h.Namespace, h.Name)}, nil)
	if err == nil && n.Mark != o.mark(h) {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	return n, err
}

// holds reports whether a host has a node that carries its mark.
func (o ownership) holds(h *v1alpha1.BareMetalHost) bool {
	n, known := o.nodes.Node(h.Status.Provisioning.ID)
	return known && n.Mark == o.mark(h)
}

// take makes a released node the host's, unless somebody else was faster.
func (o ownership) take(ctx context.Context, n provisioner.Node, mark provisioner.Mark) (provisioner.Node, error) {
	taken, err := o.engine.TakeReleased(ctx, n.ID, mark)
	if err != nil {
		return provisioner.Node{}, refused(v1alpha1.OperationRegister, "take over", n.ID, err)
	}
	return taken, nil
}

// isConflict reports whether an error says that a node is not the host's.
func isConflict(err error) bool {
	var conflict *conflictError
	return errors.As(err, &conflict) || errors.Is(err, provisioner.ErrNotOwned)
}
