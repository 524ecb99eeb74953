package pxefilter

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestPhasesHaveTheStatesInWhichTheRamdiskRuns(t *testing.T) {
	want := map[string][]node.State{
		"inspection": {node.Inspecting, node.InspectWait},
		"cleaning":   {node.Cleaning, node.CleanWait, node.CleanHold},
		"deployment": {node.Deploying, node.DeployWait, node.DeployHold},
		"servicing":  {node.Servicing, node.ServiceWait, node.ServiceHold},
		"rescue":     {node.Rescuing, node.RescueWait, node.Rescue},
		"idle":       {node.Enroll, node.Manageable, node.Available},
	}
	got := map[string][]node.State{}
	for _, p := range phases {
		got[p.Name] = p.states()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states of phases (-want +got):\n%s", diff)
	}
}

// TestEveryStateThatWaitsForAnAgentBelongsToOnePhase fails when the provision
// state machine gets a state that this package does not know what to do with.
func TestEveryStateThatWaitsForAnAgentBelongsToOnePhase(t *testing.T) {
	for _, s := range node.States() {
		var in []string
		for _, p := range phases {
			if slices.Contains(p.states(), s) {
				in = append(in, p.Name)
			}
		}
		waits := s.Class() == node.Waiting || s.Class() == node.Held
		if len(in) > 1 || waits && len(in) == 0 {
			t.Errorf("state %q is in phases %q, want one", s, in)
		}
	}
}

func TestStatesWithAnInstanceAreNeverServed(t *testing.T) {
	served := phaseOf(PhaseNames())
	for _, s := range []node.State{node.Active, node.ErrorState, node.Deleting, node.Adopting, node.Unrescuing, node.Verifying} {
		if p, ok := served[s]; ok {
			t.Errorf("state %q is served in phase %q", s, p.Name)
		}
	}
	for _, s := range node.States() {
		if _, ok := served[s]; ok && s.Class() == node.Failed {
			t.Errorf("failed state %q is served", s)
		}
	}
}
