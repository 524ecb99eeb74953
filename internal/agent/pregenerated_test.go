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

func TestTokenFromAMediumSurvivesTheAgentUntilTheMediumIsWithdrawn(t *testing.T) {
	n := &node.Node{DriverInternalInfo: agent.WithPregenerated(nil, "from the medium").With(map[string]any{agent.URLKey: "https://192.0.2.9:9999"})}
	n.DriverInternalInfo = agent.ForgetProcess(n.DriverInternalInfo)
	if agent.Pregenerated(n) != "from the medium" || agent.EndpointOf(n).URL != "" {
		t.Errorf("after a restart the node has %s", n.DriverInternalInfo)
	}
	node.WithdrawRamdiskBoot(n)
	if agent.Pregenerated(n) != "" || n.DriverInternalInfo.Text(agent.TokenKey) == "" {
		t.Errorf("after the medium is withdrawn the node has %s, want the token of the running agent", n.DriverInternalInfo)
	}
	if left := agent.Forget(agent.WithPregenerated(nil, "x")); !left.IsEmpty() {
		t.Errorf("of a forgotten agent %s is left", left)
	}
	if issued := agent.WithToken(agent.WithPregenerated(nil, "x"), "y", time.Now()); agent.Pregenerated(&node.Node{DriverInternalInfo: issued}) != "" {
		t.Error("a token that was issued counts as that of a medium")
	}
}
