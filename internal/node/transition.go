package node

// Trigger causes a transition from one provision state to the next: a verb of the API
// or an outcome that the conductor reports.
type Trigger string

// Triggers that clients send as provision verbs (see Verbs for their wire names).
const (
	OnManage   Trigger = "manage"
	OnProvide  Trigger = "provide"
	OnInspect  Trigger = "inspect"
	OnClean    Trigger = "clean"
	OnAdopt    Trigger = "adopt"
	OnDeploy   Trigger = "deploy"
	OnRebuild  Trigger = "rebuild"
	OnDelete   Trigger = "delete"
	OnRescue   Trigger = "rescue"
	OnUnrescue Trigger = "unrescue"
	OnService  Trigger = "service"
	OnAbort    Trigger = "abort"
	OnUnhold   Trigger = "unhold"
)

// Triggers that the conductor reports.
const (
	OnDone   Trigger = "done"
	OnFail   Trigger = "fail"
	OnWait   Trigger = "wait"
	OnResume Trigger = "resume"
	OnHold   Trigger = "hold"
)

// Transition is one row of the provision state machine.
type Transition struct {
	From State
	On   Trigger
	To   State
	// Target is the target_provision_state that the transition sets. Empty keeps the
	// present one, or clears it when To is stable.
	Target State
}

// transitions is the whole provision state machine of the Bare Metal API v1. It includes inspect
// wait → inspecting, which came with in-band inspection. The API, the conductor and the
// documentation all use this table.
var transitions = []Transition{
	{Enroll, OnManage, Verifying, Manageable},
	{Verifying, OnDone, Manageable, ""},
	{Verifying, OnFail, Enroll, ""},

	{Manageable, OnInspect, Inspecting, Manageable},
	{Manageable, OnProvide, Cleaning, Available},
	{Manageable, OnClean, Cleaning, Manageable},
	{Manageable, OnAdopt, Adopting, Active},
	{Available, OnManage, Manageable, ""},
	{Available, OnDeploy, Deploying, Active},

	{Inspecting, OnDone, Manageable, ""},
	{Inspecting, OnWait, InspectWait, ""},
	{Inspecting, OnFail, InspectFailed, ""},
	{InspectWait, OnResume, Inspecting, ""},
	{InspectWait, OnDone, Manageable, ""},
	{InspectWait, OnFail, InspectFailed, ""},
	{InspectWait, OnAbort, InspectFailed, ""},
	{InspectFailed, OnInspect, Inspecting, Manageable},
	{InspectFailed, OnManage, Manageable, ""},

	{Cleaning, OnDone, Available, ""},
	{Cleaning, OnManage, Manageable, ""},
	{Cleaning, OnWait, CleanWait, ""},
	{Cleaning, OnHold, CleanHold, ""},
	{Cleaning, OnFail, CleanFailed, ""},
	{CleanWait, OnResume, Cleaning, ""},
	{CleanWait, OnHold, CleanHold, ""},
	{CleanWait, OnFail, CleanFailed, ""},
	{CleanWait, OnAbort, CleanFailed, ""},
	{CleanHold, OnUnhold, CleanWait, ""},
	{CleanHold, OnAbort, CleanFailed, ""},
	{CleanFailed, OnManage, Manageable, ""},

	{Deploying, OnDone, Active, ""},
	{Deploying, OnWait, DeployWait, ""},
	{Deploying, OnHold, DeployHold, ""},
	{Deploying, OnFail, DeployFailed, ""},
	{DeployWait, OnResume, Deploying, ""},
	{DeployWait, OnHold, DeployHold, ""},
	{DeployWait, OnFail, DeployFailed, ""},
	{DeployWait, OnAbort, DeployFailed, ""},
	{DeployWait, OnDelete, Deleting, Available},
	{DeployHold, OnUnhold, DeployWait, ""},
	{DeployHold, OnAbort, DeployFailed, ""},
	{DeployFailed, OnDeploy, Deploying, Active},
	{DeployFailed, OnRebuild, Deploying, Active},
	{DeployFailed, OnDelete, Deleting, Available},

	{Active, OnRebuild, Deploying, Active},
	{Active, OnDelete, Deleting, Available},
	{Active, OnRescue, Rescuing, Rescue},
	{Active, OnService, Servicing, Active},
	{ErrorState, OnRebuild, Deploying, Active},
	{ErrorState, OnDelete, Deleting, Available},
	{Deleting, OnClean, Cleaning, Available},
	{Deleting, OnFail, ErrorState, ""},

	{Adopting, OnDone, Active, ""},
	{Adopting, OnFail, AdoptFailed, ""},
	{AdoptFailed, OnAdopt, Adopting, Active},
	{AdoptFailed, OnManage, Manageable, ""},

	{Rescuing, OnDone, Rescue, ""},
	{Rescuing, OnWait, RescueWait, ""},
	{Rescuing, OnFail, RescueFailed, ""},
	{RescueWait, OnResume, Rescuing, ""},
	{RescueWait, OnFail, RescueFailed, ""},
	{RescueWait, OnAbort, RescueFailed, ""},
	{RescueWait, OnDelete, Deleting, Available},
	{Rescue, OnRescue, Rescuing, Rescue},
	{Rescue, OnUnrescue, Unrescuing, Active},
	{Rescue, OnDelete, Deleting, Available},
	{RescueFailed, OnRescue, Rescuing, Rescue},
	{RescueFailed, OnUnrescue, Unrescuing, Active},
	{RescueFailed, OnDelete, Deleting, Available},
	{UnrescueFailed, OnRescue, Rescuing, Rescue},
	{UnrescueFailed, OnUnrescue, Unrescuing, Active},
	{UnrescueFailed, OnDelete, Deleting, Available},
	{Unrescuing, OnDone, Active, ""},
	{Unrescuing, OnFail, UnrescueFailed, ""},

	{Servicing, OnDone, Active, ""},
	{Servicing, OnWait, ServiceWait, ""},
	{Servicing, OnHold, ServiceHold, ""},
	{Servicing, OnFail, ServiceFailed, ""},
	{ServiceWait, OnResume, Servicing, ""},
	{ServiceWait, OnHold, ServiceHold, ""},
	{ServiceWait, OnFail, ServiceFailed, ""},
	{ServiceWait, OnAbort, ServiceFailed, ""},
	{ServiceWait, OnDelete, Deleting, Available},
	{ServiceHold, OnUnhold, ServiceWait, ""},
	{ServiceHold, OnService, Servicing, Active},
	{ServiceHold, OnFail, ServiceFailed, ""},
	{ServiceHold, OnAbort, ServiceFailed, ""},
	{ServiceFailed, OnService, Servicing, Active},
	{ServiceFailed, OnRescue, Rescuing, Rescue},
	{ServiceFailed, OnAbort, Active, ""},
	{ServiceFailed, OnWait, ServiceWait, Active},
	{ServiceFailed, OnHold, ServiceHold, Active},
	{ServiceFailed, OnDelete, Deleting, Available},
}

type edge struct {
	from State
	on   Trigger
}

var transitionIndex = func() map[edge]Transition {
	index := make(map[edge]Transition, len(transitions))
	for _, t := range transitions {
		index[edge{t.From, t.On}] = t
	}
	return index
}()

// Transitions returns a copy of the provision state machine.
func Transitions() []Transition { return append([]Transition(nil), transitions...) }

// Next returns the transition for a trigger in state from, and whether
// there is one.
func Next(from State, on Trigger) (Transition, bool) {
	t, ok := transitionIndex[edge{from, on}]
	return t, ok
}

// Move returns the state and target_provision_state of n after trigger. It does
// not change n. The error is a *TransitionError that names the trigger.
func (n *Node) Move(on Trigger) (state, target State, err error) {
	t, ok := Next(n.ProvisionState, on)
	if !ok {
		return "", "", &TransitionError{Node: n.UUID, Verb: string(on), State: n.ProvisionState}
	}
	switch {
	case t.Target != "":
		target = t.Target
	case t.To.Class() != Stable:
		target = n.TargetProvisionState
	}
	return t.To, target, nil
}

// Verb is a provision verb as clients send it in states/provision.
type Verb struct {
	Name  string  // "target" on the wire
	On    Trigger // its trigger
	Since int     // microversion 1.N that introduced it
}

// verbs lists the provision verbs in the order the documentation shows them.
var verbs = []Verb{
	{"active", OnDeploy, 1},
	{"rebuild", OnRebuild, 1},
	{"deleted", OnDelete, 1},
	{"manage", OnManage, 4},
	{"provide", OnProvide, 4},
	{"inspect", OnInspect, 6},
	{"abort", OnAbort, 13},
	{"clean", OnClean, 15},
	{"adopt", OnAdopt, 17},
	{"rescue", OnRescue, 38},
	{"unrescue", OnUnrescue, 38},
	{"deploy", OnDeploy, 73},
	{"undeploy", OnDelete, 73},
	{"unhold", OnUnhold, 85},
	{"service", OnService, 87},
}

// Verbs returns every provision verb.
func Verbs() []Verb { return append([]Verb(nil), verbs...) }

// VerbNamed finds a verb by its wire name.
func VerbNamed(name string) (Verb, bool) {
	for _, v := range verbs {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
