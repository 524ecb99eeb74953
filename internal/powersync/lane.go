package powersync

import (
	"container/heap"
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
)

// laneKind numbers the lanes. Each lane has its own nodes, due times and calls, so that no lane
// waits for another.
type laneKind int

const (
	answering    laneKind = iota // nodes that answered last time, or were never read
	unanswered                   // nodes that did not answer last time
	powerFailure                 // nodes with the fault power failure
	laneCount                    // number of lanes; not a lane
)

// lane is a queue of nodes in the order of their due times, with a limit on concurrent readings.
type lane struct {
	task   string
	places *semaphore.Weighted
	// together is how much before its due time a node may be read, so that one query looks up
	// several nodes in the database.
	together time.Duration
	queue    queue         // guarded by Syncer.mu
	wake     chan struct{} // signals that the queue has a new first node
}

// newLane returns a lane with its share of the calls. All lanes together have half of the process's
// calls; a quarter of that half is for machines that are not expected to answer.
func newLane(kind laneKind, cfg Config) *lane {
	places, interval := cfg.Calls*3/8, cfg.Interval
	if kind != answering {
		places = cfg.Calls / 16
	}
	if kind == powerFailure {
		interval = cfg.Recovery
	}
	return &lane{
		task:     [laneCount]string{"power sync", "power sync of nodes that do not answer", "power recovery"}[kind],
		places:   semaphore.NewWeighted(int64(max(1, places))),
		together: min(interval/64, time.Second/2), wake: make(chan struct{}, 1),
	}
}

// entry is a node that this process watches.
type entry struct {
	id   int64
	uuid string
	n    *node.Node // as last read from the database; replaced, never changed
	due  time.Time
	// lane is the lane whose queue the node is in; nil while the node is being read or is not to be
	// read.
	lane  *lane
	index int  // in the queue
	busy  bool // it is being read

	round      uint64 // how often the node has been due so far
	failures   int    // in a row
	restores   int    // in a row; a reading that shows the restored power state ends the row
	readAt     time.Time
	differedAt time.Time // when the machine last differed; zero if not since the last suspension ended
}

// spread returns the entry's spread for its next due time, see the function spread.
func (e *entry) spread() float64 { return spread(e.uuid, e.round) }

// queue is a heap by due time.
type queue []*entry

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].id < q[j].id
	}
	return q[i].due.Before(q[j].due)
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push and Pop are for package heap.
func (q *queue) Push(x any) {
	e := x.(*entry) //nolint:forcetypeassert // the queue holds nothing else
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop removes the last.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}

// laneOf returns the lane that a node belongs to; nil when its machine is not to be read.
func (s *Syncer) laneOf(e *entry) *lane {
	switch {
	case !s.switchable(e.n):
		return nil
	case e.n.Fault == node.FaultPowerFailure:
		return s.lanes[powerFailure]
	case !synced(e.n):
		return nil
	case e.failures > 0:
		return s.lanes[unanswered]
	}
	return s.lanes[answering]
}

// enqueue puts an entry that is in no queue into the queue of its lane.
func (s *Syncer) enqueue(e *entry) {
	l := s.laneOf(e)
	if e.lane = l; l == nil {
		return
	}
	heap.Push(&l.queue, e)
	if e.index == 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// dequeue takes an entry out of its queue.
func (s *Syncer) dequeue(e *entry) {
	if e.lane != nil {
		heap.Remove(&e.lane.queue, e.index)
		e.lane = nil
	}
}

// await waits for due nodes of a lane and takes a place for each of them. It returns none when ctx
// has ended.
func (s *Syncer) await(ctx context.Context, l *lane) []*entry {
	if l.places.Acquire(ctx, 1) != nil {
		return nil
	}
	for {
		due, wait := s.take(l, time.Now())
		if len(due) > 0 {
			return due
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// atMost limits how many nodes are looked up in the database at once.
const atMost = 256

// take removes from a lane's queue the nodes that are due, as far as there are places. The caller
// already has the place of the first node. When no node is due, take returns how long to wait.
func (s *Syncer) take(l *lane, now time.Time) (due []*entry, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(l.queue) > 0 && len(due) < atMost {
		first, by := l.queue[0], now
		if len(due) > 0 {
			by = now.Add(l.together)
		}
		if first.due.After(by) || len(due) > 0 && !l.places.TryAcquire(1) {
			break
		}
		s.dequeue(first)
		first.busy = true
		due = append(due, first)
	}
	if len(due) > 0 {
		return due, 0
	}
	if len(l.queue) == 0 {
		return nil, longestSilence // wake signals earlier
	}
	return nil, l.queue[0].due.Sub(now)
}
