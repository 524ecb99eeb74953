package node

import (
	"errors"
	"slices"
	"testing"
)

// allTriggers is every trigger there is, verbs and outcomes.
var allTriggers = []Trigger{
	OnManage, OnProvide, OnInspect, OnClean, OnAdopt, OnDeploy, OnRebuild, OnDelete, OnRescue, OnUnrescue,
	OnService, OnAbort, OnUnhold, OnDone, OnFail, OnWait, OnResume, OnHold,
}

// expectedMachine is the state machine of the API reference, written down a
// second time by hand and in another form: state → "trigger>state" pairs.
var expectedMachine = map[State][]string{
	Enroll:         {"manage>verifying"},
	Verifying:      {"done>manageable", "fail>enroll"},
	Manageable:     {"inspect>inspecting", "provide>cleaning", "clean>cleaning", "adopt>adopting"},
	Available:      {"manage>manageable", "deploy>deploying"},
	Inspecting:     {"done>manageable", "wait>inspect wait", "fail>inspect failed"},
	InspectWait:    {"resume>inspecting", "done>manageable", "fail>inspect failed", "abort>inspect failed"},
	InspectFailed:  {"inspect>inspecting", "manage>manageable"},
	Cleaning:       {"done>available", "manage>manageable", "wait>clean wait", "hold>clean hold", "fail>clean failed"},
	CleanWait:      {"resume>cleaning", "hold>clean hold", "fail>clean failed", "abort>clean failed"},
	CleanHold:      {"unhold>clean wait", "abort>clean failed"},
	CleanFailed:    {"manage>manageable"},
	Deploying:      {"done>active", "wait>wait call-back", "hold>deploy hold", "fail>deploy failed"},
	DeployWait:     {"resume>deploying", "hold>deploy hold", "fail>deploy failed", "abort>deploy failed", "delete>deleting"},
	DeployHold:     {"unhold>wait call-back", "abort>deploy failed"},
	DeployFailed:   {"deploy>deploying", "rebuild>deploying", "delete>deleting"},
	Active:         {"rebuild>deploying", "delete>deleting", "rescue>rescuing", "service>servicing"},
	ErrorState:     {"rebuild>deploying", "delete>deleting"},
	Deleting:       {"clean>cleaning", "fail>error"},
	Adopting:       {"done>active", "fail>adopt failed"},
	AdoptFailed:    {"adopt>adopting", "manage>manageable"},
	Rescuing:       {"done>rescue", "wait>rescue wait", "fail>rescue failed"},
	RescueWait:     {"resume>rescuing", "fail>rescue failed", "abort>rescue failed", "delete>deleting"},
	Rescue:         {"rescue>rescuing", "unrescue>unrescuing", "delete>deleting"},
	RescueFailed:   {"rescue>rescuing", "unrescue>unrescuing", "delete>deleting"},
	UnrescueFailed: {"rescue>rescuing", "unrescue>unrescuing", "delete>deleting"},
	Unrescuing:     {"done>active", "fail>unrescue failed"},
	Servicing:      {"done>active", "wait>service wait", "hold>service hold", "fail>service failed"},
	ServiceWait:    {"resume>servicing", "hold>service hold", "fail>service failed", "abort>service failed", "delete>deleting"},
	ServiceHold:    {"unhold>service wait", "service>servicing", "fail>service failed", "abort>service failed"},
	ServiceFailed: {
		"service>servicing", "rescue>rescuing", "abort>active", "wait>service wait", "hold>service hold", "delete>deleting",
	},
}

// expectedTargets is the target_provision_state shown in each state; a state
// with several lists all of them.
var expectedTargets = map[State][]State{
	Verifying:  {Manageable},
	Inspecting: {Manageable}, InspectWait: {Manageable}, InspectFailed: {Manageable},
	Cleaning: {Available, Manageable}, CleanWait: {Available, Manageable}, CleanHold: {Available, Manageable}, CleanFailed: {Available, Manageable},
	Deploying: {Active}, DeployWait: {Active}, DeployHold: {Active}, DeployFailed: {Active},
	Deleting: {Available},
	Adopting: {Active}, AdoptFailed: {Active},
	Rescuing: {Rescue}, RescueWait: {Rescue}, RescueFailed: {Rescue},
	Unrescuing: {Active}, UnrescueFailed: {Active},
	Servicing: {Active}, ServiceWait: {Active}, ServiceHold: {Active}, ServiceFailed: {Active},
}

func TestEveryStateAndTriggerMovesAsTheReferenceSays(t *testing.T) {
	if got, want := len(States()), len(expectedMachine); got != want {
		t.Fatalf("states: got %d, want %d", got, want)
	}
	for state, pairs := range expectedMachine {
		allowed := map[Trigger]State{}
		for _, pair := range pairs {
			i := slices.Index([]byte(pair), '>')
			allowed[Trigger(pair[:i])] = State(pair[i+1:])
		}
		for _, trigger := range allTriggers {
			n := &Node{UUID: "u", ProvisionState: state, TargetProvisionState: "kept"}
			to, _, err := n.Move(trigger)
			want, ok := allowed[trigger]
			var transition *TransitionError
			switch {
			case !ok && !errors.As(err, &transition):
				t.Errorf("%s on %s: got %q, %v, want a TransitionError", trigger, state, to, err)
			case ok && (err != nil || to != want):
				t.Errorf("%s on %s: got %q, %v, want %q", trigger, state, to, err, want)
			}
		}
	}
}

// TestTargetsFollowEveryPath walks every path from enroll and checks the target
// that clients see at each state.
func TestTargetsFollowEveryPath(t *testing.T) {
	type view struct{ state, target State }
	seen := map[view]bool{}
	var walk func(v view)
	walk = func(v view) {
		if seen[v] {
			return
		}
		seen[v] = true
		if want := expectedTargets[v.state]; v.target == "" && len(want) > 0 || v.target != "" && !slices.Contains(want, v.target) {
			t.Errorf("state %q reached with target %q, want one of %q", v.state, v.target, want)
		}
		for _, trigger := range allTriggers {
			n := &Node{ProvisionState: v.state, TargetProvisionState: v.target}
			if to, target, err := n.Move(trigger); err == nil {
				walk(view{to, target})
			}
		}
	}
	walk(view{Enroll, ""})
	reached := map[State]bool{}
	for v := range seen {
		reached[v.state] = true
	}
	for _, s := range States() {
		if s != ErrorState && !reached[s] {
			t.Errorf("state %q cannot be reached from enroll", s)
		}
	}
}

func TestEveryVerbLeadsSomewhere(t *testing.T) {
	for _, verb := range Verbs() {
		found := false
		for _, tr := range Transitions() {
			found = found || tr.On == verb.On
		}
		if !found {
			t.Errorf("verb %q triggers %q, which no transition has", verb.Name, verb.On)
		}
		if got, ok := VerbNamed(verb.Name); !ok || got != verb {
			t.Errorf("VerbNamed(%q) = %v, %v", verb.Name, got, ok)
		}
	}
	if _, ok := VerbNamed("explode"); ok {
		t.Error("VerbNamed accepts an unknown verb")
	}
}
