package pxefilter

import (
	"slices"

	"github.com/ingot-metal/ingot/internal/node"
)

// Phase is a part of a node's life in which its machine boots the ramdisk from the network, or runs
// the ramdisk and has to keep its address.
type Phase struct {
	Name string
	// begins are the states with which the phase begins. The states in which it waits or is held
	// follow from the provision state machine.
	begins []node.State
	// ends are outcomes after which the ramdisk still runs.
	ends []node.Trigger
	// inspects says that the phase counts only for nodes with a supported inspect interface.
	inspects bool
}

// phases lists every phase, inspection first. All other states are refused: a machine that runs an
// instance must never boot the ramdisk by accident.
var phases = []Phase{
	{Name: "inspection", begins: []node.State{node.Inspecting}, inspects: true},
	{Name: "cleaning", begins: []node.State{node.Cleaning}},
	{Name: "deployment", begins: []node.State{node.Deploying}},
	{Name: "servicing", begins: []node.State{node.Servicing}},
	{Name: "rescue", begins: []node.State{node.Rescuing}, ends: []node.Trigger{node.OnDone}},
	// Nothing is installed yet, and the ramdisk may run between two phases: on discovered machines,
	// on machines without a BMC, and with fast track.
	{Name: "idle", begins: []node.State{node.Enroll, node.Manageable, node.Available}},
}

// Inspection is the name of the phase that is always served.
const Inspection = "inspection"

// PhaseNames returns the names of all phases.
func PhaseNames() []string {
	names := make([]string, len(phases))
	for i, p := range phases {
		names[i] = p.Name
	}
	return names
}

// states returns the provision states of the phase.
func (p Phase) states() []node.State {
	states := slices.Clone(p.begins)
	for _, from := range p.begins {
		if from.Class() != node.Working {
			continue
		}
		for _, on := range append([]node.Trigger{node.OnWait, node.OnHold}, p.ends...) {
			if next, ok := node.Next(from, on); ok {
				states = append(states, next.To)
			}
		}
	}
	return states
}

// phaseOf maps the provision states of the named phases to their phase.
func phaseOf(names []string) map[node.State]Phase {
	served := map[node.State]Phase{}
	for _, p := range phases {
		if p.Name != Inspection && !slices.Contains(names, p.Name) {
			continue
		}
		for _, s := range p.states() {
			served[s] = p
		}
	}
	return served
}
