package agent

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// The provision states in which a ramdisk may look up its node, and the states that fast-track
// adds.
var (
	lookupStates = []node.State{
		node.Deploying, node.DeployWait, node.Cleaning, node.CleanWait, node.Inspecting, node.InspectWait,
		node.Rescuing, node.RescueWait, node.ServiceWait,
	}
	fastTrackStates = []node.State{node.Enroll, node.Manageable, node.Available, node.Servicing, node.ServiceHold}
)

// MayLookUp reports whether a ramdisk may look up a node in this provision state.
func MayLookUp(s node.State, fastTrack bool) bool {
	return slices.Contains(lookupStates, s) || fastTrack && slices.Contains(fastTrackStates, s)
}
