package host

import "k8s.io/apimachinery/pkg/types"

// refusals counts how often in a row the engine gave the same answer about each host.
type refusals struct{ memo[int] }

// add counts one more and returns how many there were.
func (r *refusals) add(host types.UID) int {
	times, _ := r.update(host, func(times int, _ bool) (int, bool) { return times + 1, true })
	return times
}
