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
	wait := min(time.Minute<<min(max(n, 0), maxDoublings), limit)
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(max(n, 0))))
	share := float64(h.Sum64()>>11) / (1 << 53)
	return wait - time.Duration(share*float64(wait)/2)
}
