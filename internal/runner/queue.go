package runner

import (
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Job is work whose row and lease this process has.
type Job struct {
	work *store.Work // as last written
	hint any         // see Task
	node *node.Node  // as it was committed with the work; nil when it must be read
	// attempt is what this process knows of the operation under way; empty when the
	// checkpoint says it.
	attempt driver.Attempt
	// deadline is until when the call may be made that Begin has begun; zero when none may.
	deadline time.Time
	child    node.Lease // of the child node that the operation under way changes
	info     Info       // what it does now, for the context of its attempt
	claimed  bool       // it was found in the database, and has not gone on yet
	stale    bool       // the row must be read again before anything is done
}

// NewJob returns work that its caller has stored under a lease of this process.
// Node and hint are what the caller knows of it; both may be nil.
func NewJob(w *store.Work, n *node.Node, hint any) *Job { return &Job{work: w, node: n, hint: hint} }

// queue hands jobs out in the order of their arrival. It has no bound of its own: a
// node has at most one lease, so there are never more jobs than nodes.
type queue struct {
	mu      sync.Mutex
	jobs    []*Job
	arrived *sync.Cond
	closed  bool
	asleep  []*Job // due at NotBefore of their work
}

func newQueue() *queue {
	q := &queue{}
	q.arrived = sync.NewCond(&q.mu)
	return q
}

// push adds a job.
func (q *queue) push(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs = append(q.jobs, j)
	q.arrived.Signal()
}

// pop waits for a job; ok is false once the queue is closed.
func (q *queue) pop() (j *Job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) == 0 && !q.closed {
		q.arrived.Wait()
	}
	if q.closed {
		return nil, false
	}
	return q.first(), true
}

// first takes the job that has waited longest. The caller holds the lock.
func (q *queue) first() *Job {
	var j *Job
	j, q.jobs[0] = q.jobs[0], nil
	q.jobs = q.jobs[1:]
	return j
}

// sleep keeps a job until it is due.
func (q *queue) sleep(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asleep = append(q.asleep, j)
}

// wake queues the sleeping jobs that are due at now, and returns when the next
// one is; ok is false when none sleeps.
func (q *queue) wake(now time.Time) (next time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	still := q.asleep[:0]
	for _, j := range q.asleep {
		due := j.work.NotBefore
		if !due.After(now) {
			q.jobs = append(q.jobs, j)
			q.arrived.Signal()
			continue
		}
		if !ok || due.Before(next) {
			next, ok = due, true
		}
		still = append(still, j)
	}
	clear(q.asleep[len(still):])
	q.asleep = still
	return next, ok
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.arrived.Broadcast()
}

// uncalled returns the leases of waiting jobs whose machine is held for a call that Begin has
// begun and nobody has made.
func (q *queue) uncalled() []node.Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	var leases []node.Lease
	for _, j := range q.jobs {
		if !j.deadline.IsZero() {
			leases = append(leases, j.work.Lease)
		}
	}
	return leases
}

// waiting returns how many jobs wait for their turn.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// keepHints is how many waiting jobs may keep their hint and their node in memory.
// Later ones read them again, so that a storm of requests stays small.
const keepHints = 128

// Enqueue starts work that its caller has stored; nil is none of ours.
func (r *Runner) Enqueue(j *Job) {
	if j == nil {
		return
	}
	if r.queue.waiting() >= keepHints {
		j.hint, j.node = nil, nil
	}
	r.leases.hold(j.work.Lease)
	r.queue.push(j)
}

// Load is how much a runner has to do.
type Load struct {
	Waiting int       // pieces of work that wait for their turn
	Asleep  int       // pieces of work that wait for a time, with their lease
	Wakes   time.Time // when the first of those goes on; zero when there is none
	Leases  []int64   // epochs of the leases that are renewed
}

// Load returns how much this process has to do.
func (r *Runner) Load() Load {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	load := Load{Waiting: len(r.queue.jobs), Asleep: len(r.queue.asleep), Leases: r.leases.epochs()}
	for _, j := range r.queue.asleep {
		if due := j.work.NotBefore; load.Wakes.IsZero() || due.Before(load.Wakes) {
			load.Wakes = due
		}
	}
	return load
}
