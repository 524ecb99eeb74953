package runner

import (
	"slices"
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
	// attempt is what this process knows of the operation in progress; empty when the checkpoint
	// says it.
	attempt driver.Attempt
	// deadline is the end of the time for the call that Begin has begun; zero without such a call.
	deadline time.Time
	child    node.Lease // lease of the child node that the operation in progress changes
	info     Info       // what the job does now, for the context of its attempt
	claimed  bool       // the job was claimed from the database, and has not gone on yet
	stale    bool       // the row must be read again before anything is done
	arrival  uint64     // position among all jobs that were ever queued
}

// NewJob returns a job for work that the caller has stored under a lease of this process. Node and
// hint are what the caller knows already; both may be nil.
func NewJob(w *store.Work, n *node.Node, hint any) *Job { return &Job{work: w, node: n, hint: hint} }

// lane is a part of the queue. Jobs of one lane do not wait for those of the other, so machines that
// do not answer do not delay hooks.
type lane int

// Lanes of jobs, by what they are there for.
const (
	machineLane   lane = iota // calls to machines
	processorLane             // an operation that keeps a processor busy, see Script.Processor
	lanes                     // how many there are
)

// queue hands out the jobs of each lane in the order of their arrival. It needs no limit: a node has
// at most one lease, so there are never more jobs than nodes.
type queue struct {
	laneOf func(store.WorkKind) lane

	mu      sync.Mutex
	jobs    [lanes][]*Job
	arrived [lanes]*sync.Cond
	arrival uint64 // of the newest job
	closed  bool
	delayed []*Job // due at NotBefore of their work
	// someFilledAt is when lanesToFill last returned some of the lanes.
	someFilledAt time.Time
}

func newQueue(laneOf func(store.WorkKind) lane) *queue {
	q := &queue{laneOf: laneOf}
	for l := range q.arrived {
		q.arrived[l] = sync.NewCond(&q.mu)
	}
	return q
}

// push adds a job.
func (q *queue) push(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(j)
}

// add adds a job. The caller holds the lock.
func (q *queue) add(j *Job) {
	q.arrival++
	j.arrival = q.arrival
	l := q.laneOf(j.work.Kind)
	q.jobs[l] = append(q.jobs[l], j)
	q.arrived[l].Signal()
}

// pop waits for a job of a lane; ok is false once the queue is closed.
func (q *queue) pop(l lane) (j *Job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs[l]) == 0 && !q.closed {
		q.arrived[l].Wait()
	}
	if q.closed {
		return nil, false
	}
	return q.take(l), true
}

// take takes the job of a lane that has waited longest. The caller holds the lock.
func (q *queue) take(l lane) *Job {
	var j *Job
	j, q.jobs[l][0] = q.jobs[l][0], nil
	q.jobs[l] = q.jobs[l][1:]
	return j
}

// takeFirst takes the job that has waited longest in any lane; nil when none waits.
func (q *queue) takeFirst() *Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := lanes
	for l := range lanes {
		if len(q.jobs[l]) > 0 && (first == lanes || q.jobs[l][0].arrival < q.jobs[first][0].arrival) {
			first = l
		}
	}
	if first == lanes {
		return nil
	}
	return q.take(first)
}

// delay keeps a job until it is due.
func (q *queue) delay(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delayed = append(q.delayed, j)
}

// addDue queues the delayed jobs that are due at now, and returns when the next one is due; ok is
// false when none is left.
func (q *queue) addDue(now time.Time) (next time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	still := q.delayed[:0]
	for _, j := range q.delayed {
		due := j.work.NotBefore
		if !due.After(now) {
			q.add(j)
			continue
		}
		if !ok || due.Before(next) {
			next, ok = due, true
		}
		still = append(still, j)
	}
	clear(q.delayed[len(still):])
	q.delayed = still
	return next, ok
}

// lanesToFill returns the lanes that have room for claimed jobs. While another one has none, it
// returns them only once per someLanesPoll.
func (q *queue) lanesToFill(now time.Time) []lane {
	q.mu.Lock()
	defer q.mu.Unlock()
	var toFill []lane
	for l := range lanes {
		if len(q.jobs[l]) < claimBatch {
			toFill = append(toFill, l)
		}
	}
	if len(toFill) < int(lanes) {
		if now.Sub(q.someFilledAt) < someLanesPoll {
			return nil
		}
		q.someFilledAt = now
	}
	return toFill
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, arrived := range q.arrived {
		arrived.Broadcast()
	}
}

// uncalled returns the leases of queued jobs whose machine is busy with a call that Begin has begun
// but nobody has made.
func (q *queue) uncalled() []node.Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	var leases []node.Lease
	for _, j := range slices.Concat(q.jobs[:]...) {
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
	return q.length()
}

// length returns how many jobs wait for their turn. The caller holds the lock.
func (q *queue) length() (n int) {
	for _, jobs := range q.jobs {
		n += len(jobs)
	}
	return n
}

// keepHints is how many queued jobs may keep their hint and their node in memory. Further jobs drop
// both, so that a storm of requests takes little memory: what they need is read again.
const keepHints = 128

// Enqueue starts a job for work that the caller has stored. It ignores nil.
func (r *Runner) Enqueue(j *Job) {
	if j == nil {
		return
	}
	if r.queue.waiting() >= keepHints {
		j.hint, j.node = nil, nil
	}
	r.leases.keepRenewed(j.work.Lease)
	r.queue.push(j)
}

// Load is how much a runner has to do.
type Load struct {
	Waiting int       // pieces of work that wait for a session
	Delayed int       // pieces of work that wait for a time and keep their lease
	NextDue time.Time // when the first of these goes on; zero without one
	Leases  []int64   // epochs of the leases that are renewed
}

// Load returns how much this process has to do.
func (r *Runner) Load() Load {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	load := Load{Waiting: r.queue.length(), Delayed: len(r.queue.delayed), Leases: r.leases.epochs()}
	for _, j := range r.queue.delayed {
		if due := j.work.NotBefore; load.NextDue.IsZero() || due.Before(load.NextDue) {
			load.NextDue = due
		}
	}
	return load
}
