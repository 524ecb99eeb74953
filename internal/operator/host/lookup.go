package host

import (
	"context"
	"errors"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// unmanagedPoll is how often an unmanaged host is reconciled to find its node. A
// new node triggers a reconciliation at once.
const unmanagedPoll = 10 * time.Minute

// lookup finds the node of a host that has none.
type lookup struct {
	owners  ownership
	others  otherHosts
	metrics *Metrics
}

func (p lookup) reconcile(ctx context.Context, s *scope) (result, error) {
	n, err := p.find(ctx, s)
	var conflict *conflictError
	switch {
	case err == nil:
		s.host.Status.Provisioning.ID = n.ID
		if s.node != nil {
			return s.moveTo(v1alpha1.StateImporting), nil
		}
		s.note(eventImportStarted, "Found node %s of the engine for this host", n.ID)
		s.working(v1alpha1.ImportingReason, "Importing node %s from the engine", n.ID)
		return s.moveTo(v1alpha1.StateImporting), nil
	case errors.As(err, &conflict):
		s.waiting("Not imported: %s%s", conflict.reason, adviceOnRival(s.host, n, p.owners.mark(s.host)))
		if s.lastMessage(v1alpha1.ProgressingCondition) != s.progress.message {
			s.warn(eventImportConflict, "%s", s.progress.message)
		}
	case !errors.Is(err, provisioner.ErrNotFound):
		return result{}, err
	default:
		s.waiting("The engine has no node for this host; boot the machine into the ramdisk")
	}
	s.host.Status.Provisioning.ID = ""
	if s.state() == v1alpha1.StateNone {
		s.note(eventDiscovered, "Host has no BMC and is not known to the engine")
		count(p.metrics.unmanaged, s.host)
		return s.moveTo(v1alpha1.StateUnmanaged), nil
	}
	return stoppedFor(unmanagedPoll), nil
}

// adviceOnRival returns what to do with a host that discovery made for a node, if the host of
// another cluster has the node; "" in other cases. Where two clusters discover the machines of one
// engine, both make a host for a node.
func adviceOnRival(h *v1alpha1.BareMetalHost, n provisioner.Node, mark provisioner.Mark) string {
	if _, here := n.Mark.Neighbour(mark); n.Mark == "" || here || !isMadeFor(h, n.ID) {
		return ""
	}
	return "; discovery made this host for the node, which another cluster has now: if the machine belongs there, delete this host, " +
		"and let one cluster alone discover the machines of an engine"
}

// find returns the node that the host may have. A node that the stored host names in its status
// annotation is marked at once, so that a deletion from now on finds it.
func (p lookup) find(ctx context.Context, s *scope) (provisioner.Node, error) {
	if err := p.others.check(ctx, s.host); err != nil {
		return provisioner.Node{}, err
	}
	if s.found == nil {
		n, err := p.owners.find(ctx, s.host)
		if err != nil {
			return n, err
		}
		return n, p.owners.check(ctx, s.host, n)
	}
	n, err := p.owners.ensureMark(ctx, s.host, *s.found)
	if err == nil {
		s.node = &n
	}
	return n, err
}
