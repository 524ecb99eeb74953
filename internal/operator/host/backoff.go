package host

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// maxDoublings bounds the exponent of the back-off.
const maxDoublings = 9

// backoff is the wait after the n-th error in a row: 2^n minutes, at most
// limit, minus up to half of it. The subtracted part depends on the host
// and n only, so that hosts which failed together do not retry together and
// every pass computes the same.
func backoff(n int, limit time.Duration, key string) time.Duration {
	return spread(min(time.Minute<<min(max(n, 0), maxDoublings), limit), key, uint64(max(n, 0)))
}

// spread is a wait minus up to half of it. The part depends on the key and the numbers.
func spread(wait time.Duration, key string, numbers ...uint64) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	for _, n := range numbers {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	share := float64(h.Sum64()>>11) / (1 << 53)
	return wait - time.Duration(share*float64(wait)/2)
}
