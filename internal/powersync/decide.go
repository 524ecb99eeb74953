package powersync

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// unsyncedStates are the stable and failed states in which nobody vouches for the
// machine yet.
var unsyncedStates = []node.State{node.Enroll, node.AdoptFailed}

// synced reports whether the power of a node is synchronized while nobody has its
// lease. Work that waits has none: its state tells, and the machine may be off because
// a step is at it, or in the middle of new firmware. In a hold the machine is a
// person's.
func synced(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return !n.Maintenance && n.TargetPowerState == "" && (class == node.Stable || class == node.Failed) &&
		!slices.Contains(unsyncedStates, n.ProvisionState)
}

// action is what follows from reading a machine's power state.
type action int

const (
	keep    action = iota // nothing: both say the same
	accept                // store what was observed
	restore               // restore what the node says
)

// decide compares what a machine shows with what its node says.
func decide(n *node.Node, observed node.PowerState, acceptAll bool) action {
	switch {
	case observed == n.PowerState:
		return keep
	case acceptAll, n.PowerState != node.PowerOn && n.PowerState != node.PowerOff:
		return accept
	case n.DisablePowerOff && n.PowerState == node.PowerOff:
		return accept
	}
	return restore
}

// sameMachine reports whether what was read of one version of a node holds for the
// other.
func sameMachine(a, b *node.Node) bool {
	return a.Driver == b.Driver && string(a.DriverInfo) == string(b.DriverInfo) &&
		a.Interfaces[node.PowerInterface] == b.Interfaces[node.PowerInterface]
}

// Times of readings.
const (
	// firstWithin is how soon the nodes that a process finds are all read: half of it
	// goes by until the last of them is due.
	firstWithin = 60 * time.Second
	// longestSilence bounds the pause between readings of a machine that does not answer.
	longestSilence = 30 * time.Minute
)

// firstDue is in how much time a node is due that was never read. Spread is from 0 to
// below 1.
func firstDue(interval time.Duration, spread float64) time.Duration {
	return part(min(interval, firstWithin)/2, spread)
}

// nextDue is in how much time a node is due again that answered. After the first
// reading that is spread wider, because first readings are close to each other.
func nextDue(interval time.Duration, first bool, spread float64) time.Duration {
	if first {
		return interval - part(interval*3/4, spread)
	}
	return interval - part(interval/8, spread)
}

// retryDue is in how much time a machine is read again that has not answered so many
// times in a row.
func retryDue(interval time.Duration, failures int, spread float64) time.Duration {
	pause := interval
	for range failures - 1 {
		if pause >= longestSilence {
			break
		}
		pause = min(2*pause, longestSilence)
	}
	return pause - part(pause/8, spread)
}

func part(d time.Duration, spread float64) time.Duration { return time.Duration(float64(d) * spread) }

// spread is a number from 0 to below 1 that differs between nodes, and between the
// readings of one.
func spread(uuid string, round uint64) float64 {
	const prime = 1099511628211
	hash := uint64(14695981039346656037) ^ round
	for i := range len(uuid) {
		hash = (hash ^ uint64(uuid[i])) * prime
	}
	hash ^= hash >> 32 // the low bits of the last character reach the high ones
	hash *= 0x9e3779b97f4a7c15
	return float64(hash>>11) / (1 << 53)
}

// fewDiffer is how many machines may differ from their nodes however few were read, and
// manyDiffer how many however many were: a rack that lost its power is no more.
const fewDiffer, manyDiffer = 10, 100

// tooMany reports whether so many of the machines that were read differ from their
// nodes that the record is wrong rather than the machines: more than a fifth of them.
func tooMany(read, differing int) bool {
	return differing > min(max(fewDiffer, read/5), manyDiffer)
}
