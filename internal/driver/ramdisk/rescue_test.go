package ramdisk

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// TestRescueSystemGetsTheHashOnce also looks at what the node has of it afterwards.
func TestRescueSystemGetsTheHashOnce(t *testing.T) {
	s := &standIn{commands: []agent.Command{asked}}
	rescue := Rescue{driverOf(s, true)}
	n := &node.Node{UUID: "u", InstanceInfo: node.ObjectOf(map[string]any{node.RescueHashKey: "$5$salt$hash", "image_source": "i"})}
	turn := driver.Turn{}
	for range 2 { // it is about to be sent, then it is
		out, err := rescue.SetRescuePassword(t.Context(), n, turn)
		if err != nil {
			t.Fatal(err)
		}
		turn = driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}
	}
	if len(s.sent) != 1 {
		t.Fatalf("%d commands were sent, want 1", len(s.sent))
	}
	want := map[string]any{"rescue_password": "$5$salt$hash", "hashed": true}
	if diff := cmp.Diff(want, s.sent[0]); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	s.end(agent.CommandSucceeded, nil)
	turn.Heard = true
	out, err := rescue.SetRescuePassword(t.Context(), n, turn)
	if err != nil || !out.Done() {
		t.Fatalf("at its end: %+v, %v, want it done", out, err)
	}
	out.Apply(n)
	if got := n.InstanceInfo.String(); got != `{"image_source":"i"}` {
		t.Errorf("the node still has %s", got)
	}
	if _, err := rescue.SetRescuePassword(t.Context(), n, driver.Turn{}); err == nil {
		t.Error("without a hash there is no error")
	}
}

// TestRescueWhoseAnswerWasLostIsDoneWhenTheAgentHasEnded loses the answer to the command with which
// the agent ends.
func TestRescueWhoseAnswerWasLostIsDoneWhenTheAgentHasEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		running bool // it sends heartbeats
		done    bool
	}{"no heartbeats any more": {false, true}, "it may live": {true, false}} {
		n := &node.Node{UUID: "u", InstanceInfo: node.ObjectOf(map[string]any{node.RescueHashKey: "$5$salt$hash"})}
		s := &standIn{commands: []agent.Command{asked}, lose: errLost}
		rescue := Rescue{driverOf(s, tc.running)}
		turn := driver.Turn{Attempt: driver.Continued, Phase: phaseToSend, Handle: asked.ID}
		if _, err := rescue.SetRescuePassword(t.Context(), n, turn); !errors.Is(err, errLost) {
			t.Fatalf("%s: got %v, want the lost answer", name, err)
		}
		s.silent, turn.Attempt = errRefused, driver.Unknown
		out, err := rescue.SetRescuePassword(t.Context(), n, turn)
		if err != nil || out.Done() != tc.done || len(s.sent) != 1 {
			t.Errorf("%s: %+v, %v with %d sent, want it done: %v", name, out, err, len(s.sent), tc.done)
		}
	}
}
