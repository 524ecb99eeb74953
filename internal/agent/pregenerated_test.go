package agent_test

import (
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// TestTokenFromAMediumIsNeverIssuedAgain looks nodes up in the states in which other tokens
// are replaced.
func TestTokenFromAMediumIsNeverIssuedAgain(t *testing.T) {
	for _, state := range []node.State{node.InspectWait, node.CleanWait, node.DeployWait} {
		for _, hasBMC := range []bool{true, false} {
			n := &node.Node{ProvisionState: state, DriverInternalInfo: agent.WithPregenerated(nil, "from the medium")}
			got := agent.DecideToken(n, node.HardwareAttributes{HasBMC: hasBMC}, time.Now().Add(24*time.Hour), time.Minute, agent.Call{})
			if got != agent.MaskToken {
				t.Errorf("%s, BMC %v: %v, want that it is masked", state, hasBMC, got)
			}
		}
	}
}

// TestTokenFromAMediumStaysThatOfTheAgentThatWasNotHeardYet: the medium may be withdrawn before the
// agent looks up its node for the first time.
func TestTokenFromAMediumStaysThatOfTheAgentThatWasNotHeardYet(t *testing.T) {
	withdrawn := func(info node.Object) *node.Node {
		n := &node.Node{ProvisionState: node.Manageable, DriverInternalInfo: info}
		node.WithdrawRamdiskBoot(n)
		return n
	}
	read := agent.WithPregenerated(nil, "from the medium")
	for name, tc := range map[string]struct {
		info   node.Object
		hasBMC bool
		want   agent.TokenAnswer
	}{
		"read from the medium":                {read, true, agent.MaskToken},
		"another ramdisk has posted":          {agent.WithRebootSeen(read, time.Now()), true, agent.MaskToken},
		"the node has no BMC any more":        {read, false, agent.ReissueToken},
		"issued to an agent on the network":   {agent.WithToken(nil, "issued", time.Now()), true, agent.ReissueToken},
		"issued after one that was forgotten": {agent.WithToken(agent.Clear(withdrawn(read).DriverInternalInfo), "issued", time.Now()), true, agent.ReissueToken},
		"issued in the place of one":          {agent.WithToken(withdrawn(read).DriverInternalInfo, "issued", time.Now()), true, agent.ReissueToken},
	} {
		got := agent.DecideToken(withdrawn(tc.info), node.HardwareAttributes{HasBMC: tc.hasBMC}, time.Now().Add(time.Hour), time.Minute, agent.Call{})
		if got != tc.want {
			t.Errorf("%s: answer = %d, want %d", name, got, tc.want)
		}
	}
	if left := agent.Clear(withdrawn(read).DriverInternalInfo); !left.IsEmpty() {
		t.Errorf("of a forgotten agent %s is left", left)
	}
}

func TestTokenFromAMediumSurvivesTheAgentUntilTheMediumIsWithdrawn(t *testing.T) {
	n := &node.Node{DriverInternalInfo: agent.WithPregenerated(nil, "from the medium").With(map[string]any{agent.URLKey: "https://192.0.2.9:9999"})}
	n.DriverInternalInfo = agent.ClearProcess(n.DriverInternalInfo)
	if agent.Pregenerated(n) != "from the medium" || agent.EndpointOf(n).URL != "" {
		t.Errorf("after a restart the node has %s", n.DriverInternalInfo)
	}
	node.WithdrawRamdiskBoot(n)
	if agent.Pregenerated(n) != "" || n.DriverInternalInfo.Text(agent.TokenKey) == "" {
		t.Errorf("after the medium is withdrawn the node has %s, want the token of the running agent", n.DriverInternalInfo)
	}
	if left := agent.Clear(agent.WithPregenerated(nil, "x")); !left.IsEmpty() {
		t.Errorf("of a forgotten agent %s is left", left)
	}
	if issued := agent.WithToken(agent.WithPregenerated(nil, "x"), "y", time.Now()); agent.Pregenerated(&node.Node{DriverInternalInfo: issued}) != "" {
		t.Error("a token that was issued counts as that of a medium")
	}
}
