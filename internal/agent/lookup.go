package agent

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// The provision states in which a ramdisk may look up its node, and those that
// fast-track adds.
var (
	lookupStates = []node.State{
		node.Deploying, node.DeployWait, node.Cleaning, node.CleanWait, node.Inspecting, node.InspectWait,
		node.Rescuing, node.RescueWait, node.ServiceWait,
	}
	fastTrackStates = []node.State{node.Enroll, node.Manageable, node.Available, node.Servicing, node.ServiceHold}
)

// MayLookUp reports whether a ramdisk may look up a node in this provision state.
func MayLookUp(s node.State, fastTrack bool) bool {
	return slices.Contains(lookupStates, s) || fastTrack && slices.Contains(fastTrackStates, s)
}

// TokenAnswer says what the answer to a lookup has as agent token.
type TokenAnswer int

// Answers to a lookup.
const (
	// MaskToken: a token was issued already and may be in use.
	MaskToken TokenAnswer = iota
	// IssueToken: the node has none yet.
	IssueToken
	// ReissueToken: the machine has restarted its ramdisk, which lost the token. It gets
	// a new one; the old one is void.
	ReissueToken
	// RetryLater: the machine seems to have been restarted, but its earlier agent may
	// still be alive. The answer is 409, which agents retry.
	RetryLater
)

// DecideToken decides about the token in the answer to a lookup. When the engine
// restarts a machine through its BMC, it also removes the token. A machine without a
// BMC is restarted by people: its ramdisk gets a new token when no step is running and
// the old agent has sent no heartbeat for the window. Until then a machine that has
// posted an inventory since its last heartbeat must retry.
func DecideToken(n *node.Node, hardware node.HardwareAttributes, now time.Time, window time.Duration) TokenAnswer {
	if n.DriverInternalInfo.Text(TokenKey) == "" {
		return IssueToken
	}
	if hardware.HasBMC || stepRunning(n) {
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

// WithToken returns driver_internal_info with a new token and without the data of the
// agent that had the old one.
func WithToken(info node.Object, token string, now time.Time) node.Object {
	return info.With(map[string]any{
		TokenKey: token, knownSinceKey: FormatTime(now),
		URLKey: nil, VerifyCAKey: nil, VersionKey: nil, RebootSeenKey: nil,
	})
}

// WithRebootSeen returns driver_internal_info with the time of a restart, see RebootSeenKey.
func WithRebootSeen(info node.Object, now time.Time) node.Object {
	return info.With(map[string]any{RebootSeenKey: FormatTime(now)})
}

func stepRunning(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return class == node.Working || class == node.Waiting ||
		!n.CleanStep.IsEmpty() || !n.DeployStep.IsEmpty() || !n.ServiceStep.IsEmpty()
}
