package powersync

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// unsyncedStates are the stable and failed states in which nobody has yet confirmed that the node's
// BMC data is right.
var unsyncedStates = []node.State{node.Enroll, node.AdoptFailed}

// synced reports whether the power of a node is synchronized while nobody has its lease. Waiting
// work has no lease, so the provision state decides: the machine may be off because of a step, or
// in the middle of a firmware update. In a hold the machine belongs to a person.
func synced(n *node.Node) bool {
	class := n.ProvisionState.Class()
	return !n.Maintenance && n.TargetPowerState == "" && (class == node.Stable || class == node.Failed) &&
		!slices.Contains(unsyncedStates, n.ProvisionState)
}

// action is the consequence of a reading.
type action int

const (
	keep    action = iota // nothing to do: both are equal
	accept                // store the observed power state
	restore               // restore the stored power state
)

// decide returns what to do when the machine shows observed and n is its node.
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

// sameMachine reports whether two versions of a node lead to the same machine, so that a reading
// made with one is valid for the other.
func sameMachine(a, b *node.Node) bool {
	return a.Driver == b.Driver && string(a.DriverInfo) == string(b.DriverInfo) &&
		a.Interfaces[node.PowerInterface] == b.Interfaces[node.PowerInterface]
}

// Times of readings.
const (
	// firstWithin is the time in which all nodes that a process finds at its start are read. The
	// last of them is due after half of it.
	firstWithin = 60 * time.Second
	// longestSilence is the longest pause between readings of a machine that does not answer.
	longestSilence = 30 * time.Minute
)

// firstDue returns the time until the first reading of a node. Spread is from 0 to below 1.
func firstDue(interval time.Duration, spread float64) time.Duration {
	return part(min(interval, firstWithin)/2, spread)
}

// nextDue returns the time until the next reading of a node that answered. After the first reading
// it spreads the nodes wider, because their first readings are close to each other.
func nextDue(interval time.Duration, first bool, spread float64) time.Duration {
	if first {
		return interval - part(interval*3/4, spread)
	}
	return interval - part(interval/8, spread)
}

// retryDue returns the time until the next reading of a machine that has not answered this many
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

// spread returns a number from 0 to below 1 that differs between nodes, and between the readings of
// one node.
func spread(uuid string, round uint64) float64 {
	const prime = 1099511628211
	hash := uint64(14695981039346656037) ^ round
	for i := range len(uuid) {
		hash = (hash ^ uint64(uuid[i])) * prime
	}
	hash ^= hash >> 32 // lets the low bits of the last character reach the high bits
	hash *= 0x9e3779b97f4a7c15
	return float64(hash>>11) / (1 << 53)
}

// fewDiffer machines may differ from their nodes however few machines were read. More than
// manyDiffer may never differ, however many were read: a rack that lost its power is not more.
const fewDiffer, manyDiffer = 10, 100

// tooMany reports whether so many machines differ from their nodes that the stored states are
// likely wrong rather than the machines: more than a fifth of the machines that were read, within
// the limits fewDiffer and manyDiffer.
func tooMany(read, differing int) bool {
	return differing > min(max(fewDiffer, read/5), manyDiffer)
}
