// Package requeue has the waits after which controllers look at an object again. They are
// functions of their arguments: what failed together is not tried again together, and each
// pass computes the same.
package requeue

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

const (
	// Soon is the wait after a write, or after one that was refused because somebody else
	// wrote the object. It gives the cache time to show that.
	Soon = 20 * time.Millisecond
	// Unreachable is the longest wait while the engine does not answer; its return
	// reconciles the hosts that were refused meanwhile.
	Unreachable = 2 * time.Minute
)

// maxDoublings bounds the exponent of the back-off.
const maxDoublings = 9

// Backoff is the wait after the n-th error in a row: 2^n minutes, at most limit, minus up
// to half of it by the key.
func Backoff(n int, limit time.Duration, key string) time.Duration {
	wait := min(time.Minute<<min(max(n, 0), maxDoublings), limit)
	return Spread(wait, wait/2, key, n)
}

// Left is what is left of a pause since a time. A time that is as far ahead ends the pause, too: the clock was set
// back since, and that must not make it longer.
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

// WhileBusy is the wait after the n-th refusal in a row of an engine that works on the node:
// from 3 to 10 seconds, by the key.
func WhileBusy(n int, key string) time.Duration {
	wait := min(busy<<min(max(n-1, 0), maxDoublings), maxBusy)
	return Spread(wait, wait/4, key, n)
}

// Spread is a wait minus a part of at most so much, which depends on the key and the number.
func Spread(wait, most time.Duration, key string, n int) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(max(n, 0))))
	share := float64(h.Sum64()>>11) / (1 << 53)
	return wait - time.Duration(share*float64(most))
}

// Soonest is the shortest of some waits, where 0 means no wait.
func Soonest(waits ...time.Duration) time.Duration {
	var soonest time.Duration
	for _, wait := range waits {
		if soonest == 0 || wait > 0 && wait < soonest {
			soonest = wait
		}
	}
	return soonest
}
