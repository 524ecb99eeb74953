package agent

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// RefusedError is the refusal of a heartbeat. Its text is for the agent, its reason is for people.
type RefusedError struct {
	Reason node.RefusalReason
	told   error // a *node.ValidationError
}

func (e *RefusedError) Error() string { return e.told.Error() }

func (e *RefusedError) Unwrap() error { return e.told }

// refused returns a *RefusedError with a formatted text.
func refused(reason node.RefusalReason, format string, args ...any) error {
	return &RefusedError{reason, node.Invalid(format, args...)}
}

// refusalEvery is the least time between notes of refusals in one node. Refused heartbeats are not
// authenticated, and each note is a write.
const refusalEvery = time.Minute

// NotesRefusal reports whether a refusal is noted in the node now. Anybody can send heartbeats
// without the token, so these do not delay the note of a heartbeat with the token.
func NotesRefusal(n *node.Node, reason node.RefusalReason, now time.Time) bool {
	if !Records(n.ProvisionState) {
		return false
	}
	return !slices.ContainsFunc(node.HeartbeatRefusals(n.DriverInternalInfo), func(r node.HeartbeatRefusal) bool {
		age := now.Sub(r.At) // negative if the clock was set back
		return r.Reason.HadToken() == reason.HadToken() && age >= 0 && age < refusalEvery
	})
}

// WithRefusal returns driver_internal_info with the refusal of a heartbeat. It replaces an earlier
// refusal for the same reason.
func WithRefusal(info node.Object, reason node.RefusalReason, url string, now time.Time) node.Object {
	others := slices.DeleteFunc(node.HeartbeatRefusals(info), func(r node.HeartbeatRefusal) bool { return r.Reason == reason })
	noted := node.HeartbeatRefusal{Reason: reason, URL: node.CutText(url), At: now.UTC()}
	return info.With(map[string]any{node.HeartbeatRefusalsKey: append(others, noted)})
}
