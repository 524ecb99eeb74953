package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// ownership decides which node a host may use. What a host says about itself proves nothing,
// because anybody who may write hosts, if only in one namespace, can write it. A node is a host's
// when it carries the host's mark. A host can mark only a node that nobody uses, or a node with the
// host's name. A node in use with that name may be that of another cluster's host, so it is marked
// only for a host that is known as its user.
//
// A host gets the node's ID in its status first and marks the node after that, so that a deletion
// in between finds the node. If several hosts find the same free node, even hosts of several
// clusters, one of them gets it. A host first locks the node ([provisioner.Mark.Lock]), which the
// engine refuses to all but one. The answer shows the node as it is then. The host marks and
// unlocks the node in one request, or, if it finds another mark, takes its lock off again. If the
// operator ends in between, the host recognises its lock in the next pass. A node with an instance
// cannot be locked, and needs no lock: it is marked only for the host that is known as its user.
//
// So only the host changes its mark, apart from people and the next cluster of a host that moves.
// Every pass that acts on a node reads it before and looks for the mark: the API has no
// precondition that would do both at once.
type ownership struct {
	links
	// cluster is the identity of the cluster in marks.
	cluster string
	engine  provisioner.Lifecycle
}

// claim is what a host has to do before it may use a node.
type claim int

const (
	claimMarked  claim = iota // nothing: the node carries the host's mark
	claimLock                 // the node has to be locked and marked
	claimNeeded               // it has to be marked, and nobody else can lock it
	claimReturn               // the host did not move after all: its release has to end
	claimMoved                // the same host in another cluster has released the node
	claimAwaited              // the same host in another cluster has not released the node yet
	claimRefused              // somebody else uses the node
)

// decideClaim returns what a host has to do before it may use a node. The reason explains a
// refusal. moving is the digest of the annotation from which the host's status is restored, "" for
// a host that is not being restored.
func decideClaim(h *v1alpha1.BareMetalHost, n provisioner.Node, mark provisioner.Mark, moving string) (claim, string) {
	locked := n.InstanceID == mark.Lock(n.ID)
	if locked {
		n.InstanceID = "" // as it was before the lock: a node with an instance cannot be locked
	}
	needed := claimLock
	if n.InstanceID != "" {
		needed = claimNeeded
	}
	switch {
	case n.Mark == mark && n.Released != "":
		return claimReturn, ""
	case n.Mark == mark && locked:
		return claimLock, ""
	case n.Mark == mark:
		return claimMarked, ""
	case moving != "" && n.Mark.Moves(mark) && n.Released == moving:
		return claimMoved, ""
	case moving != "" && n.Mark.Moves(mark):
		return claimAwaited, ""
	case n.Mark == "" && provisioner.IsLock(n.InstanceID):
		return claimRefused, fmt.Sprintf("node %s is in use: %s", n.ID, n.UsedFor())
	case n.Mark != "" || n.Name != provisioner.NodeName(h.Namespace, h.Name):
	case n.UsedFor() == "" || uses(h, n):
		return needed, ""
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
	return needed, ""
}

// uses reports whether a node without a mark is known to be the host's: the host is linked to it,
// or it shows the host as its instance.
func uses(h *v1alpha1.BareMetalHost, n provisioner.Node) bool {
	return h.Status.Provisioning.ID == n.ID || n.InstanceID != "" && n.InstanceID == string(h.UID)
}

// mark returns the mark of a host.
func (o ownership) mark(h *v1alpha1.BareMetalHost) provisioner.Mark {
	return provisioner.MarkOf(o.cluster, h.Namespace, h.Name)
}

// check returns a conflictError unless the host, which has no node yet, may have this one. It
// changes nothing, except that it takes the host's lock off somebody else's node.
func (o ownership) check(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node) error {
	others, err := o.hostsOf(ctx, n.ID, h)
	if err != nil {
		return err
	}
	if reason := decideLink(h, n, o.mark(h), others); reason != "" {
		return o.refuse(ctx, h, n, reason)
	}
	return nil
}

// refuse takes the host's lock off a node that the host cannot have, and returns a conflictError
// with the reason. If the node has the mark of a host that is gone, the reason says how to free the
// node.
func (o ownership) refuse(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node, reason string) error {
	if err := o.unlock(ctx, h, n); err != nil {
		return err
	}
	if name, here := n.Mark.Neighbour(o.mark(h)); here && n.Mark != o.mark(h) && o.isGone(ctx, name) {
		reason = fmt.Sprintf("node %s is in use: it belongs to host %s, which does not exist any more; if nobody needs what is on its machine, %s",
			n.ID, name, wayToFree(n))
	}
	return &conflictError{reason}
}

// wayToFree returns how a person frees a node whose host is gone. A node that has a name has the
// name of that host, which has to be removed, too.
func wayToFree(n provisioner.Node) string {
	switch {
	case n.UsedFor() != "":
		return fmt.Sprintf("delete it in maintenance, which leaves the machine as it is: `ingot node maintenance set %[1]s`, then `ingot node delete %[1]s`", n.ID)
	case n.Name != "":
		return fmt.Sprintf("free it with `ingot node unset %s --name --extra %s`", n.ID, v1alpha1.NodeMarkKey)
	default:
		return fmt.Sprintf("free it with `ingot node unset %s --extra %s`", n.ID, v1alpha1.NodeMarkKey)
	}
}

// isGone reports whether there is no host with a name of the form namespace/name. A host that
// cannot be read may exist.
func (o ownership) isGone(ctx context.Context, name string) bool {
	namespace, name, _ := strings.Cut(name, "/")
	var other v1alpha1.BareMetalHost
	return apierrors.IsNotFound(o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &other))
}

// unlock takes the host's lock off a node, if it is there.
func (o ownership) unlock(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node) error {
	mark := o.mark(h)
	if n.InstanceID != mark.Lock(n.ID) {
		return nil
	}
	return refused(v1alpha1.OperationRegister, "unlock", n.ID, o.engine.Unlock(ctx, n.ID, mark))
}

// ensureMark makes sure that a node which was just read is the host's, and returns it. It marks the
// node if that is still to be done. It returns a conflictError when the node is not the host's.
func (o ownership) ensureMark(ctx context.Context, h *v1alpha1.BareMetalHost, n provisioner.Node) (provisioner.Node, error) {
	mark := o.mark(h)
	step, reason := decideClaim(h, n, mark, "")
	if step == claimLock || step == claimNeeded {
		rival, err := o.rival(ctx, n.ID, h)
		if err != nil {
			return provisioner.Node{}, err
		}
		if rival != nil {
			return provisioner.Node{}, o.refuse(ctx, h, n, fmt.Sprintf("node %s belongs to the older host %s/%s", n.ID, rival.Namespace, rival.Name))
		}
	}
	if step == claimLock {
		locked, err := o.engine.Lock(ctx, n.ID, mark)
		if errors.Is(err, provisioner.ErrNotOwned) {
			return provisioner.Node{}, &conflictError{fmt.Sprintf("node %s is in use, or being taken for another host", n.ID)}
		}
		if err != nil {
			return provisioner.Node{}, refused(v1alpha1.OperationRegister, "lock for this host", n.ID, err)
		}
		n = locked
		step, reason = decideClaim(h, n, mark, "")
	}
	switch step {
	case claimMarked:
		return n, nil
	case claimReturn:
		return o.take(ctx, n, mark)
	case claimLock, claimNeeded:
		return o.claim(ctx, n, mark, provisioner.ClaimOptions{Unlock: step == claimLock})
	default:
		return provisioner.Node{}, o.refuse(ctx, h, n, reason)
	}
}

// claim marks a node that nobody else can mark.
func (o ownership) claim(ctx context.Context, n provisioner.Node, mark provisioner.Mark, opts provisioner.ClaimOptions) (provisioner.Node, error) {
	marked, err := o.engine.Claim(ctx, n.ID, mark, opts)
	if err != nil {
		return provisioner.Node{}, refused(v1alpha1.OperationRegister, "mark as this host's", n.ID, err)
	}
	o.nodes.Note(marked)
	if marked.Mark != mark {
		return provisioner.Node{}, &conflictError{fmt.Sprintf("node %s does not keep the mark of this host", n.ID)}
	}
	return marked, nil
}

// nodeOf returns the node of a host that gives it up, with the host's mark. It is the node whose ID
// the host has. If there is none, it is the node that was created for a host with a BMC: the
// operator may have ended before it stored the ID. It returns provisioner.ErrNotFound when there is
// neither, and a conflictError when the node with the ID is not the host's.
func (o ownership) nodeOf(ctx context.Context, h *v1alpha1.BareMetalHost) (provisioner.Node, error) {
	n, err := provisioner.Node{}, provisioner.ErrNotFound
	if id := h.Status.Provisioning.ID; id != "" {
		n, err = o.nodes.Fetch(ctx, id)
	}
	switch {
	case err == nil:
		return o.ensureMark(ctx, h, n)
	case !errors.Is(err, provisioner.ErrNotFound), !h.HasBMC():
		return n, err
	}
	n, err = o.nodes.Find(ctx, provisioner.Identity{Name: provisioner.NodeName(h.Namespace, h.Name)}, nil)
	if err == nil && n.Mark != o.mark(h) {
		return provisioner.Node{}, provisioner.ErrNotFound
	}
	return n, err
}

// hasMarkedNode reports whether a host has a node that carries its mark.
func (o ownership) hasMarkedNode(h *v1alpha1.BareMetalHost) bool {
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
