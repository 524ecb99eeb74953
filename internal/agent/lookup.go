package agent

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// lookupStates are the provision states in which a ramdisk may look its node
// up, and those that fast-track adds.
var (
	lookupStates = []node.State{
		node.Deploying, node.DeployWait, node.Cleaning, node.CleanWait, node.Inspecting, node.InspectWait,
		node.Rescuing, node.RescueWait, node.ServiceWait,
	}
	fastTrackStates = []node.State{node.Enroll, node.Manageable, node.Available, node.Servicing, node.ServiceHold}
)

// MayLookUp reports whether a ramdisk may look up a node in this state.
func MayLookUp(s node.State, fastTrack bool) bool {
	return slices.Contains(lookupStates, s) || fastTrack && slices.Contains(fastTrackStates, s)
}

// TokenAnswer is what a lookup says about the agent's token.
type TokenAnswer int

// Answers to a lookup.
const (
	// MaskToken: a token was issued already and may be in use.
	MaskToken TokenAnswer = iota
	// IssueToken: the node has none yet.
	IssueToken
	// ReissueToken: the machine started its ramdisk again and has lost its
	// token. It gets a new one; the old one is void.
	ReissueToken
	// RetryLater: the machine seems to have started again, but its earlier
	// agent may still be alive. The answer is 409, which agents retry.
	RetryLater
)

// DecideToken answers a lookup. A machine whose BMC the engine drives loses its
// token when the engine restarts it. One without a BMC is restarted by people,
// so a new token is due once the old agent has been silent for the window and no
// step is running; until then a machine that has posted an inventory since its
// last heartbeat is asked to come back.
func DecideToken(n *node.Node, now time.Time, window time.Duration) TokenAnswer {
	if n.DriverInternalInfo.Text(TokenKey) == "" {
		return IssueToken
	}
	if HasBMC(n) || stepRunning(n) {
		return MaskToken
	}
	heard := LastHeartbeat(n)
	if issued := timeAt(n, knownSinceKey); issued.After(heard) {
		heard = issued
	}
	switch {
	case now.Sub(heard) > window:
		return ReissueToken
	case timeAt(n, RebootSeenKey).After(heard):
		return RetryLater
	default:
		return MaskToken
	}
}

// knownSinceKey is when the agent that holds the current token was first known. RFC 3339, UTC.
const knownSinceKey = "agent_known_since"

// WithToken returns driver_internal_info with a new token and without what was
// known of the agent that held the old one.
func WithToken(info node.Object, token string, now time.Time) node.Object {
	return info.With(map[string]any{
		TokenKey: token, knownSinceKey: FormatTime(now),
		URLKey: nil, VerifyCAKey: nil, VersionKey: nil, RebootSeenKey: nil,
	})
}

// WithRebootSeen records that a known machine posted an inventory.
func WithRebootSeen(info node.Object, now time.Time) node.Object {
	return info.With(map[string]any{RebootSeenKey: FormatTime(now)})
}

func stepRunning(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return class == node.Working || class == node.Waiting ||
		!n.CleanStep.IsEmpty() || !n.DeployStep.IsEmpty() || !n.ServiceStep.IsEmpty()
}
