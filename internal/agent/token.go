package agent

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// TokenAnswer says which agent token the answer to a lookup has.
type TokenAnswer int

// Answers to a lookup.
const (
	// MaskToken: a token was issued already and is not replaced.
	MaskToken TokenAnswer = iota
	// IssueToken: the node has none yet.
	IssueToken
	// ReissueToken: the agent that has the token is gone. The machine gets a new token, and the old
	// one becomes void.
	ReissueToken
	// CallAgent: the agent that has the token is silent. Before a decision, the engine has to call
	// its callback URL to learn whether it is gone.
	CallAgent
	// RetryLater: the agent that has the token is alive, or may be. The answer is 409, which agents
	// retry.
	RetryLater
)

// DecideToken decides about the token in the answer to a lookup, in a state in which the node may
// be looked up. Lookups are not authenticated, so a lookup proves nothing about its sender. A token
// is replaced only if its agent has sent no heartbeat for the window and does not answer a call
// either. An agent that never sent a heartbeat cannot be called, so only the window counts. A token
// that the agent got from a medium is not replaced, because only the engine boots the ramdisk from
// a medium. The zero Call means that nobody was called.
func DecideToken(n *node.Node, hardware node.HardwareAttributes, now time.Time, window time.Duration, call Call) TokenAnswer {
	token := n.DriverInternalInfo.Text(TokenKey)
	switch {
	case token == "":
		return IssueToken
	case Pregenerated(n) != "": // the machine reads it from its medium after each restart
		return MaskToken
	case hardware.HasBMC && fromMedium(n): // the agent has read it from the medium, however long it has been silent
		return MaskToken
	case !replaceable(n, hardware):
		return MaskToken
	case Silence(n, now) <= window:
		return RetryLater
	case EndpointOf(n).URL == "":
		return ReissueToken
	case call.Token != token:
		return CallAgent
	case call.Reply == NoAnswer:
		return ReissueToken
	default:
		return RetryLater
	}
}

// replaceable reports whether a restarted ramdisk may get the token of a node. When the engine
// restarts a machine through its BMC, it removes the token itself. A machine without a BMC, and so
// its agent, is restarted by people at any time. For an inspection, people may have to restart any
// machine; as long as the agent that has the token has sent no heartbeat since, no step was begun
// on it. No step was begun either on an agent that never sent one. The answer with its token may
// have been lost, for example if the engine died before it could send the answer.
func replaceable(n *node.Node, hardware node.HardwareAttributes) bool {
	inspected := n.ProvisionState == node.Inspecting || n.ProvisionState == node.InspectWait ||
		n.DriverInternalInfo.Text(RebootSeenKey) != ""
	neverHeard := hardware.HasBMC && EndpointOf(n).URL == ""
	return inspected || neverHeard || !hardware.HasBMC && !CommandRuns(n)
}

// CommandRuns reports whether a step may be running on the node's agent. That agent may look itself
// up again to read its node anew, but a new ramdisk would know nothing of the step. Steps that the
// engine runs itself, such as the wait for a heartbeat, run nothing on the agent. A step that
// starts the ramdisk waits for a new one.
func CommandRuns(n *node.Node) bool {
	for _, shown := range []node.Object{n.CleanStep, n.DeployStep, n.ServiceStep} {
		if step, _ := node.StepOf(shown); !shown.IsEmpty() && !step.Elsewhere() && step.Step != node.StepStartRamdisk {
			return true
		}
	}
	return false
}

// Silence returns for how long the agent that has the token of the node has sent no heartbeat.
func Silence(n *node.Node, now time.Time) time.Duration {
	last := LastHeartbeat(n)
	if issued := timeAt(n, knownSinceKey); issued.After(last) {
		last = issued
	}
	return now.Sub(last)
}

// knownSinceKey is when the agent that has the current token became known. RFC 3339, UTC.
const knownSinceKey = "agent_known_since"

// WithToken returns driver_internal_info with a new token and without the data of the agent that
// had the old one.
func WithToken(info node.Object, token string, now time.Time) node.Object {
	return info.With(map[string]any{
		TokenKey: token, knownSinceKey: FormatTime(now),
		URLKey: nil, VerifyCAKey: nil, VersionKey: nil, RebootSeenKey: nil, node.PregeneratedTokenKey: nil, node.TokenFromMediumKey: nil,
	})
}

// WithPregenerated is WithToken for a token that a virtual medium will give to the agent.
func WithPregenerated(info node.Object, token string) node.Object {
	return WithToken(info, token, time.Time{}).With(map[string]any{node.PregeneratedTokenKey: true, knownSinceKey: nil})
}

// Pregenerated returns the token that the node's virtual medium gives to the agent, empty if it
// gives none. It is for that medium only: files that machines boot over the network must not have
// it.
func Pregenerated(n *node.Node) string {
	var pregenerated bool
	if n.DriverInternalInfo.Get(node.PregeneratedTokenKey, &pregenerated) && pregenerated {
		return n.DriverInternalInfo.Text(TokenKey)
	}
	return ""
}

// fromMedium reports whether the node's token was on a medium that has been withdrawn.
func fromMedium(n *node.Node) bool {
	var from bool
	return n.DriverInternalInfo.Get(node.TokenFromMediumKey, &from) && from
}

// Clear returns driver_internal_info without the agent. Its token is then void.
func Clear(info node.Object) node.Object {
	return ClearProcess(info).Without(TokenKey, node.PregeneratedTokenKey, node.TokenFromMediumKey)
}

// ClearProcess returns driver_internal_info without the agent but with its token, which the next
// agent has, too.
func ClearProcess(info node.Object) node.Object {
	return info.Without(URLKey, VerifyCAKey, LastHeartbeatKey, node.HeartbeatRefusalsKey)
}

// WithRebootSeen returns driver_internal_info with the time of a restart, see RebootSeenKey.
func WithRebootSeen(info node.Object, now time.Time) node.Object {
	return info.With(map[string]any{RebootSeenKey: FormatTime(now)})
}
