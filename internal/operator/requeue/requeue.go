// Package requeue computes the waits after which controllers look at an object again. A wait
// depends only on its arguments. Objects that failed together are not tried again together, and
// each pass over an object computes the same wait.
package requeue

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

const (
	// Soon is the wait after a write, or after a write that was refused because somebody else wrote
	// the object. It gives the cache time to show the new version.
	Soon = 20 * time.Millisecond
	// Unreachable is the longest wait while the engine does not answer. When it answers again, the
	// hosts that were refused meanwhile are reconciled anyway.
	Unreachable = 2 * time.Minute
)

// maxDoublings bounds the exponent of the back-off.
const maxDoublings = 9

// Backoff returns the wait after the n-th error in a row: 2^n minutes, at most limit, minus up to
// half of it, depending on the key.
func Backoff(n int, limit time.Duration, key string) time.Duration {
	wait := min(time.Minute<<min(max(n, 0), maxDoublings), limit)
	return Spread(wait, wait/2, key, n)
}

// Left returns how much is left of a pause that began at since. If since is at least a pause in the
// future, nothing is left: the clock was set back, and that must not make the pause longer.
func Left(pause time.Duration, since, now time.Time) time.Duration {
	passed := now.Sub(since)
	if passed.Abs() >= pause {
		return 0
	}
	return min(pause-passed, pause)
}

// Waits while an engine works on a node, after the first refusal and after several.
const (
	busy    = 4 * time.Second
	maxBusy = 10 * time.Second
)

// WhileBusy returns the wait after an engine that works on the node has refused n times in a row:
// from 3 to 10 seconds, depending on the key.
func WhileBusy(n int, key string) time.Duration {
	wait := min(busy<<min(max(n-1, 0), maxDoublings), maxBusy)
	return Spread(wait, wait/4, key, n)
}

// Spread returns wait minus a part of at most most. The part depends on the key and on n.
func Spread(wait, most time.Duration, key string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(max(n, 0))))
	share := float64(h.Sum64()>>11) / (1 << 53)
	return wait - time.Duration(share*float64(most))
}

// Soonest returns the shortest of some waits. 0 means no wait.
func Soonest(waits ...time.Duration) time.Duration {
	var soonest time.Duration
	for _, wait := range waits {
		if soonest == 0 || wait > 0 && wait < soonest {
			soonest = wait
		}
	}
	return soonest
}
