package host

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// refusals counts how often in a row the engine gave the same answer about each host: that it is
// busy with the node, or does not find it. It is safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	times map[types.UID]int
}

// add counts one more and returns how many there were.
func (r *refusals) add(host types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[host]++
	return r.times[host]
}

func (r *refusals) forget(host types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.times, host)
}
