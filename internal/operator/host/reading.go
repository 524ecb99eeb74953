package host

import (
	"context"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// read returns the node of a host for a pass in a state. It takes the node from the shared cache in
// two cases: when no phase will act on the node, so that hosts which wait cost the engine nothing
// but the list of changes, and when the node will be locked first, because the lock reads it again.
func (o ownership) read(ctx context.Context, s *scope, id string, state v1alpha1.ProvisioningState) (provisioner.Node, error) {
	if s.found != nil && s.found.ID == id {
		return *s.found, nil // which this pass has read
	}
	if n, known := o.nodes.Node(id); known {
		mark := o.mark(s.host)
		step, _ := decideClaim(s.host, n, mark, "")
		if step == claimLock || n.Mark == mark && n.Released == "" && suffices(s, n, state) {
			return n, nil
		}
	}
	return o.nodes.Reread(ctx, id)
}

// idleStates are the states in which nothing is done about an available node without a BMC.
var idleStates = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateNone:      true,
	v1alpha1.StateImporting: true,
	v1alpha1.StatePreparing: true,
	v1alpha1.StateAvailable: true,
}

// awaited are the requests whose work is waited for, and is interrupted only for other inputs.
var awaited = map[string]bool{
	askManage: true, askInspect: true, askProvide: true, askAdopt: true, askDeploy: true, askUndeploy: true,
}

// suffices reports whether the copy of a node in the shared cache, which has the host's mark, is
// good enough for a pass. It is when the engine is at work on the last request, or when the machine
// is idle and its ramdisk alive.
func suffices(s *scope, n provisioner.Node, state v1alpha1.ProvisioningState) bool {
	record := s.before.Status.Operation
	if atWork(n) {
		return awaited[record.Request] && arrived(record, n) && !s.isOutdated(record) || state == v1alpha1.StateNone
	}
	return n.State == node.Available && idleStates[state] && !s.host.HasBMC() && n.Agent.Alive(s.now, s.agentWindow)
}

// atWork reports whether the engine works on the node.
func atWork(n provisioner.Node) bool {
	class := n.State.Class()
	return class == node.Working || class == node.Waiting
}
