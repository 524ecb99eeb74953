package redfish

import "github.com/ingot-metal/ingot/internal/driver"

// phaseKind says what is known in a phase of a change that takes several turns. In a phase that is
// not listed, such as most of a restart, the change was requested.
type phaseKind struct {
	before  bool // the change was not requested before this phase
	unsent  bool // the request of this phase was not sent yet, and must not be repeated blindly
	watches bool // the turns only read what the BMC says
}

var phases = map[string]phaseKind{
	// Operations that go on without a phase have sent nothing yet, except for SetBootDevice, whose
	// request may be repeated.
	"":                 {before: true, unsent: true},
	fetchPhase:         {before: true},
	servedPhase:        {before: true, unsent: true},
	earlierServedPhase: {before: true, unsent: true},
	sendPhase:          {before: true, unsent: true},

	legRestart.phase:     {unsent: true},
	legSoftRestart.phase: {unsent: true},
	legSoftOff.phase:     {unsent: true},

	searchPhase:        {watches: true},
	earlierSearchPhase: {watches: true},
	followPhase:        {watches: true},
	verifyPhase:        {watches: true},
}

// follows reports whether a phase comes after a request. A change under way must not be left in the
// middle because the BMC is away for a while: the machine may be off.
func follows(phase string) bool { return !phases[phase].before }

// prepares reports whether a phase comes before the one that sends the request.
func prepares(phase string) bool { return !follows(phase) && phase != sendPhase }

// isUnasked reports whether the BMC has surely not been asked for a change before this turn.
func isUnasked(turn driver.Turn) bool {
	return prepares(turn.Phase) || turn.Phase == sendPhase && turn.Attempt != driver.Unknown
}
