package provisioner

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// accepted are the states that a node can be in after the engine accepted a verb, until another
// request changes the state.
var accepted = map[node.Trigger][]node.State{
	node.OnManage:  {node.Verifying, node.Manageable},
	node.OnProvide: {node.Cleaning, node.CleanWait, node.Available},
	node.OnInspect: {node.Inspecting, node.InspectWait},
	node.OnClean:   {node.Cleaning, node.CleanWait},
	node.OnDeploy:  {node.Deploying, node.DeployWait, node.Active},
	node.OnDelete:  {node.Deleting, node.Cleaning, node.CleanWait, node.Available},
	node.OnAdopt:   {node.Adopting, node.Active},
	node.OnService: {node.Servicing, node.ServiceWait},
	node.OnAbort:   {node.InspectFailed, node.CleanFailed, node.DeployFailed, node.ServiceFailed, node.Active},
}

// cleaningFor are the target states of a node that is cleaned because of a verb.
var cleaningFor = map[node.Trigger]node.State{
	node.OnProvide: node.Available,
	node.OnClean:   node.Manageable,
	node.OnDelete:  node.Available,
}

// Accepted reports whether the node's state shows that a verb was accepted. If an engine refuses a
// verb, an earlier request with the same verb may have had its effect although its answer was lost.
func (n Node) Accepted(verb node.Trigger) bool {
	if !slices.Contains(accepted[verb], n.State) {
		return false
	}
	target, cleans := cleaningFor[verb]
	cleaning := n.State == node.Cleaning || n.State == node.CleanWait
	return !cleans || !cleaning || n.TargetState == "" || n.TargetState == target
}
