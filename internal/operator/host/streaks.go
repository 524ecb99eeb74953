package host

import "k8s.io/apimachinery/pkg/types"

// streaks counts how often in a row the engine gave the same answer about each host.
type streaks struct{ memo[int] }

// add counts one more and returns how many there were.
func (c *streaks) add(host types.UID) int {
	times, _ := c.update(host, func(times int, _ bool) (int, bool) { return times + 1, true })
	return times
}
