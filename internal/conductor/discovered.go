package conductor

import (
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// How closely discovered nodes are counted. Other replicas enrol machines too: far
// from the bound a count may miss what they did within the interval, near it every
// enrolment counts in its own transaction, which makes the bound exact.
const (
	countEvery = 100 * time.Millisecond
	countBelow = 2000 // machines that may still be enrolled
)

// discovered counts the nodes that auto-discovery enrolled. Nodes are counted once:
// what is new has higher keys than what was there.
type discovered struct {
	mu    sync.Mutex
	count int
	last  int64     // highest key that is counted
	at    time.Time // when the database was asked last
	stale bool      // what was counted may be gone: the next count begins anew
}

// room returns how many machines may be enrolled before there are limit discovered
// nodes.
func (d *discovered) room(tx *store.Tx, limit int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := limit - d.count; d.stale || left < countBelow || tx.Now().Sub(d.at) >= countEvery {
		if err := d.read(tx); err != nil {
			return 0, err
		}
	}
	return limit - d.count, nil
}

// recount counts all nodes, also those that other replicas deleted.
func (d *discovered) recount(tx *store.Tx) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
	return d.read(tx)
}

// read asks the database. The caller holds the lock.
func (d *discovered) read(tx *store.Tx) error {
	if d.stale {
		d.count, d.last = 0, 0
	}
	count, last, err := tx.DiscoveredAfter(d.last)
	if err != nil {
		return err
	}
	d.count, d.last, d.at, d.stale = d.count+count, last, tx.Now(), false
	return nil
}

// forget makes the next count begin anew, because a counted node was deleted or its
// transaction may not have been committed.
func (d *discovered) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}
