package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

// refusedFor notes a refusal that long before now.
func refusedFor(reason node.RefusalReason, before time.Duration) func(*node.Node) {
	return func(n *node.Node) {
		n.DriverInternalInfo = WithRefusal(n.DriverInternalInfo, reason, "https://192.0.2.9:9999", now.Add(-before))
	}
}

func TestRefusalsAreNotedOnceAMinute(t *testing.T) {
	const younger = refusalEvery - time.Nanosecond
	for name, tc := range map[string]struct {
		n      *node.Node
		reason node.RefusalReason
		want   bool
	}{
		"first":                         {machine(0), node.RefusedToken, true},
		"again":                         {machine(0, refusedFor(node.RefusedToken, younger)), node.RefusedToken, false},
		"again, a minute later":         {machine(0, refusedFor(node.RefusedToken, refusalEvery)), node.RefusedToken, true},
		"another reason":                {machine(0, refusedFor(node.RefusedToken, younger)), node.RefusedMalformed, false},
		"of the agent, after anybody's": {machine(0, refusedFor(node.RefusedToken, 0)), node.RefusedPlainHTTP, true},
		"of anybody, after the agent's": {machine(0, refusedFor(node.RefusedPlainHTTP, 0)), node.RefusedToken, true},
		"of the agent, again":           {machine(0, refusedFor(node.RefusedPlainHTTP, younger)), node.RefusedNetwork, false},
		"one old, one young":            {machine(0, refusedFor(node.RefusedToken, time.Hour), refusedFor(node.RefusedNoToken, younger)), node.RefusedToken, false},
		"the clock was set back":        {machine(0, refusedFor(node.RefusedToken, -time.Hour)), node.RefusedToken, true},
		"no heartbeat is recorded":      {machine(0, in(node.Active)), node.RefusedToken, false},
		"a ramdisk is awaited":          {machine(0, in(node.CleanWait)), node.RefusedToken, true},
	} {
		if got := NotesRefusal(tc.n, tc.reason, now); got != tc.want {
			t.Errorf("%s: noted = %v, want %v", name, got, tc.want)
		}
	}
}

func TestANodeKeepsOneRefusalForEachReasonUntilAHeartbeatIsAccepted(t *testing.T) {
	n := machine(0)
	for i := range 100 {
		reason := []node.RefusalReason{node.RefusedToken, node.RefusedNetwork}[i%2]
		url := fmt.Sprintf("http://root:pw@192.0.2.%d", i)
		n.DriverInternalInfo = WithRefusal(n.DriverInternalInfo, reason, url, now.Add(time.Duration(i)*time.Minute))
	}
	want := []node.HeartbeatRefusal{
		{Reason: node.RefusedNetwork, URL: "http://******@192.0.2.99", At: now.Add(99 * time.Minute)},
		{Reason: node.RefusedToken, URL: "http://******@192.0.2.98", At: now.Add(98 * time.Minute)},
	}
	if diff := cmp.Diff(want, node.HeartbeatRefusals(n.DriverInternalInfo)); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	beaten(0)(n)
	if left := node.HeartbeatRefusals(n.DriverInternalInfo); left != nil {
		t.Errorf("after an accepted heartbeat: %v, want none", left)
	}
}
