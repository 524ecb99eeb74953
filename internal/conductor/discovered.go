package conductor

import (
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// How exactly discovered nodes are counted. Other conductors enrol machines, too. Far from the
// limit, a count is used for a while, see countInterval, and misses what they enrol meanwhile.
// Near the limit, every enrolment counts anew in its own transaction, which makes the limit exact.
const (
	countBelow = 2000                   // with room for fewer machines, every enrolment counts anew
	countEvery = 100 * time.Millisecond // how long a count is used with that room; longer with more
	countAfter = time.Second            // how long a count is used at most
)

// countInterval returns how long a count may be used that left room for so many machines.
func countInterval(left int) time.Duration {
	return min(countEvery*time.Duration(max(left/countBelow, 1)), countAfter)
}

// discovered counts the nodes that auto-discovery enrolled. Nodes up to the key last are counted
// only once, because new nodes have higher keys than those that existed a while ago.
type discovered struct {
	mu    sync.Mutex
	count int       // nodes up to last
	newer int       // nodes after last, which are counted again each time
	last  int64     // key up to which no node can be added any more
	at    time.Time // when the database was read last
	stale bool      // counted nodes may have been deleted: the next count starts from zero
}

// room returns how many machines may still be enrolled before there are limit discovered
// nodes. Near the limit, other enrolments wait until the transaction commits.
func (d *discovered) room(tx *store.Tx, limit int) (int, error) {
	left, err := d.left(tx, limit, false)
	if err != nil || left >= countBelow {
		return left, err
	}
	if err := tx.LockName("auto_discovery.max_nodes"); err != nil {
		return 0, err
	}
	return d.left(tx, limit, true)
}

// left returns the limit minus the number of discovered nodes. It counts them if now is set or
// the last count is stale or too old, and otherwise uses the last count.
func (d *discovered) left(tx *store.Tx, limit int, now bool) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := limit - d.count - d.newer
	if !now && !d.stale && tx.Now().Sub(d.at) < countInterval(left) {
		return left, nil
	}
	err := d.read(tx)
	return limit - d.count - d.newer, err
}

// recount counts all nodes anew, so that nodes which other conductors deleted no longer count.
func (d *discovered) recount(tx *store.Tx) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
	return d.read(tx)
}

// read reads the counts from the database. The caller holds the lock.
func (d *discovered) read(tx *store.Tx) error {
	if d.stale {
		d.count, d.last = 0, 0
	}
	found, err := tx.DiscoveredAfter(d.last)
	if err != nil {
		return err
	}
	d.count, d.newer, d.last, d.at, d.stale = d.count+found.Count, found.Newer, found.Last, tx.Now(), false
	return nil
}

// markStale makes the next count start from zero, because a counted node was deleted or
// its transaction may not have been committed.
func (d *discovered) markStale() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}
