package node

// State is a provision state in its exact wire spelling.
type State string

// Provision states of the Bare Metal API v1. Each comment begins with the class of the state. A
// request ends stable and failed states, the conductor ends working states, and an agent, a timer
// or a request ends waiting states.
const (
	Enroll     State = "enroll"     // stable: known, not yet verified
	Verifying  State = "verifying"  // working: BMC credentials are checked
	Manageable State = "manageable" // stable: reachable, not offered
	Available  State = "available"  // stable: offered for deployment
	Active     State = "active"     // stable: runs an instance
	ErrorState State = "error"      // stable: undeploying failed
	Rescue     State = "rescue"     // stable: runs a rescue ramdisk

	Inspecting    State = "inspecting"     // working
	InspectWait   State = "inspect wait"   // waiting for the ramdisk's inventory
	InspectFailed State = "inspect failed" // failed

	Cleaning    State = "cleaning"     // working
	CleanWait   State = "clean wait"   // waiting for the agent
	CleanHold   State = "clean hold"   // waiting for unhold
	CleanFailed State = "clean failed" // failed

	Deploying    State = "deploying"      // working
	DeployWait   State = "wait call-back" // waiting for the agent
	DeployHold   State = "deploy hold"    // waiting for unhold
	DeployFailed State = "deploy failed"  // failed
	Deleting     State = "deleting"       // working: undeploying

	Adopting    State = "adopting"     // working
	AdoptFailed State = "adopt failed" // failed

	Rescuing       State = "rescuing"        // working
	RescueWait     State = "rescue wait"     // waiting for the agent
	RescueFailed   State = "rescue failed"   // failed
	Unrescuing     State = "unrescuing"      // working
	UnrescueFailed State = "unrescue failed" // failed

	Servicing     State = "servicing"      // working
	ServiceWait   State = "service wait"   // waiting for the agent
	ServiceHold   State = "service hold"   // waiting for unhold
	ServiceFailed State = "service failed" // failed
)

// Class is the class of a state. It says what ends the state.
type Class int

// Classes of provision states.
const (
	Stable  Class = iota // until a client requests a verb
	Working              // a conductor works under a lease
	Waiting              // waits for an agent, a timer or the BMC, without a lease
	Held                 // until a client requests unhold
	Failed               // a person must find out why
)

// stateClasses lists every state that is ever stored.
var stateClasses = map[State]Class{
	Enroll: Stable, Manageable: Stable, Available: Stable, Active: Stable, ErrorState: Stable, Rescue: Stable,
	Verifying: Working, Inspecting: Working, Cleaning: Working, Deploying: Working, Deleting: Working,
	Adopting: Working, Rescuing: Working, Unrescuing: Working, Servicing: Working,
	InspectWait: Waiting, CleanWait: Waiting, DeployWait: Waiting, RescueWait: Waiting, ServiceWait: Waiting,
	CleanHold: Held, DeployHold: Held, ServiceHold: Held,
	InspectFailed: Failed, CleanFailed: Failed, DeployFailed: Failed, AdoptFailed: Failed,
	RescueFailed: Failed, UnrescueFailed: Failed, ServiceFailed: Failed,
}

// clientStates are strings that clients may filter on although the engine never
// stores them.
var clientStates = []State{"deploy complete", "deleted", "undeploy", "deploy", "service"}

// Known reports whether s is a state that is ever stored.
func (s State) Known() bool {
	_, ok := stateClasses[s]
	return ok
}

// Class returns the class of the state; unknown states count as Stable.
func (s State) Class() Class { return stateClasses[s] }

// States returns every stored state, in no particular order.
func States() []State {
	states := make([]State, 0, len(stateClasses))
	for s := range stateClasses {
		states = append(states, s)
	}
	return states
}

// ValidFilter reports whether a list may be filtered by this state.
func (s State) ValidFilter() bool {
	if s.Known() {
		return true
	}
	for _, c := range clientStates {
		if s == c {
			return true
		}
	}
	return false
}
