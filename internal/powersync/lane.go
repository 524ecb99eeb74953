package powersync

import (
	"container/heap"
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
)

// laneKind numbers the lanes. Each has its nodes, due times and calls, so that none
// waits for another.
type laneKind int

const (
	answering    laneKind = iota // nodes that answered the last time, or were never read
	unanswered                   // nodes that did not
	powerFailure                 // nodes with the fault power failure
	laneCount                    // number of lanes; not a lane
)

// lane is nodes in the order of their due times, and how many are read at once.
type lane struct {
	task   string
	places *semaphore.Weighted
	// together is how much earlier than its time a node may be read, so that some are
	// looked up in the database at once.
	together time.Duration
	queue    queue         // guarded by Syncer.mu
	wake     chan struct{} // the first in the queue is another one
}

// newLane shares out half of the calls: a quarter of that half to machines of which no
// answer is expected.
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
	n    *node.Node // what the database said last; replaced, never changed
	due  time.Time
	// lane is whose queue the node is in; nil while it is in none, because it is being
	// read or not to be read.
	lane  *lane
	index int  // in the queue
	busy  bool // it is being read

	round      uint64 // how often it was due so far
	failures   int    // in a row
	restores   int    // in a row, without a reading in between that showed what was restored
	readAt     time.Time
	differedAt time.Time // when its machine was last found in another state; zero if it was not since a person let it go on
}

// spread is the entry's number for its next due time.
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

// laneOf returns where a node is read; nil where it is not.
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

// enqueue puts an entry that is in no queue where it belongs.
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

// await waits for nodes of a lane that are due, for each of which it takes a place. It
// returns none when ctx has ended.
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

// atMost bounds how many nodes are looked up in the database at once.
const atMost = 256

// take removes from a lane's queue the nodes that are due, as far as there are places
// beside the one that the caller has. When none is, it returns how long to wait.
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
		return nil, longestSilence // wake tells earlier
	}
	return nil, l.queue[0].due.Sub(now)
}
