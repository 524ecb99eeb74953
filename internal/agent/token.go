package agent

import (
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// TokenAnswer says what the answer to a lookup has as agent token.
type TokenAnswer int

// Answers to a lookup.
const (
	// MaskToken: a token was issued already, and is not replaced.
	MaskToken TokenAnswer = iota
	// IssueToken: the node has none yet.
	IssueToken
	// ReissueToken: the agent that has the token is gone. The machine gets a new one;
	// the old one is void.
	ReissueToken
	// CallAgent: the agent that has the token is silent. Whether it is gone has to be
	// asked at its callback URL before this can be decided.
	CallAgent
	// RetryLater: the agent that has the token lives, or may live. The answer is 409,
	// which agents retry.
	RetryLater
)

// DecideToken decides about the token in the answer to a lookup, in a state in which
// the node may be looked up. Lookups are not authenticated, so who asks proves nothing:
// a token is replaced only when its agent has sent no heartbeat for the window and does
// not answer a call either. An agent that never sent a heartbeat cannot be called, and
// only the window counts. A token that a medium has given to the agent is not replaced: nobody
// but the engine starts the ramdisk from one. The zero Call means that nobody was called.
func DecideToken(n *node.Node, hardware node.HardwareAttributes, now time.Time, window time.Duration, call Call) TokenAnswer {
	token := n.DriverInternalInfo.Text(TokenKey)
	switch {
	case token == "":
		return IssueToken
	case Pregenerated(n) != "": // the machine has it from its medium, after each restart
		return MaskToken
	case hardware.HasBMC && fromMedium(n): // it has read it there, however long it was not heard
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

// replaceable reports whether the token of a node may go to a restarted ramdisk. When
// the engine restarts a machine through its BMC, it removes the token. A machine without
// a BMC is restarted by people, and so is the agent on it, at any time. For an inspection
// people may have to restart any machine, and as long as the agent that has the token was
// not heard since, no step was begun on it. Nor was one on an agent that was never heard: the
// answer with its token may have been lost, as when the engine died before it could send it.
func replaceable(n *node.Node, hardware node.HardwareAttributes) bool {
	inspected := n.ProvisionState == node.Inspecting || n.ProvisionState == node.InspectWait ||
		n.DriverInternalInfo.Text(RebootSeenKey) != ""
	neverHeard := hardware.HasBMC && EndpointOf(n).URL == ""
	return inspected || neverHeard || !hardware.HasBMC && !CommandRuns(n)
}

// CommandRuns reports whether a step may be running on the node's agent, which then may
// look itself up again to read its node anew. A new ramdisk would know nothing of that
// step. Steps that the engine runs itself, such as the wait for a heartbeat, run nothing
// on the agent, and one that starts the ramdisk waits for a new one.
func CommandRuns(n *node.Node) bool {
	for _, shown := range []node.Object{n.CleanStep, n.DeployStep, n.ServiceStep} {
		if step, _ := node.StepOf(shown); !shown.IsEmpty() && !step.Elsewhere() && step.Step != node.StepStartRamdisk {
			return true
		}
	}
	return false
}

// Silence is for how long the agent that has the node's token was not heard.
func Silence(n *node.Node, now time.Time) time.Duration {
	heard := LastHeartbeat(n)
	if issued := timeAt(n, knownSinceKey); issued.After(heard) {
		heard = issued
	}
	return now.Sub(heard)
}

// knownSinceKey is when the agent that holds the current token was first known. RFC 3339, UTC.
const knownSinceKey = "agent_known_since"

// WithToken returns driver_internal_info with a new token and without the data of the
// agent that had the old one.
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

// Pregenerated returns the token that the node's virtual medium gives to the agent; empty
// when it gives none. It is for that medium only: what is served to machines that boot over
// the network must not have it.
func Pregenerated(n *node.Node) string {
	var pregenerated bool
	if n.DriverInternalInfo.Get(node.PregeneratedTokenKey, &pregenerated) && pregenerated {
		return n.DriverInternalInfo.Text(TokenKey)
	}
	return ""
}

// fromMedium reports whether the node's token was on a medium that was withdrawn since.
func fromMedium(n *node.Node) bool {
	var from bool
	return n.DriverInternalInfo.Get(node.TokenFromMediumKey, &from) && from
}

// Forget returns driver_internal_info without the agent, whose token is void then.
func Forget(info node.Object) node.Object {
	return ForgetProcess(info).Without(TokenKey, node.PregeneratedTokenKey, node.TokenFromMediumKey)
}

// ForgetProcess returns driver_internal_info without the agent but with its token, which
// the next one has, too.
func ForgetProcess(info node.Object) node.Object {
	return info.Without(URLKey, VerifyCAKey, LastHeartbeatKey, node.HeartbeatRefusalsKey)
}

// WithRebootSeen returns driver_internal_info with the time of a restart, see RebootSeenKey.
func WithRebootSeen(info node.Object, now time.Time) node.Object {
	return info.With(map[string]any{RebootSeenKey: FormatTime(now)})
}
