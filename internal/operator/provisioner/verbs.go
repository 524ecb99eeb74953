package provisioner

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// accepted are the states in which a node is after a verb was accepted, until another
// request changes that.
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

// cleaningFor are the targets of a node that is cleaned because of a verb.
var cleaningFor = map[node.Trigger]node.State{
	node.OnProvide: node.Available,
	node.OnClean:   node.Manageable,
	node.OnDelete:  node.Available,
}

// Accepted reports whether the node shows that a verb was accepted. A verb that an engine
// refuses may have had its effect before, when the answer to it was lost.
func (n Node) Accepted(verb node.Trigger) bool {
	if !slices.Contains(accepted[verb], n.State) {
		return false
	}
	target, cleans := cleaningFor[verb]
	cleaning := n.State == node.Cleaning || n.State == node.CleanWait
	return !cleans || !cleaning || n.TargetState == "" || n.TargetState == target
}
