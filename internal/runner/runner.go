// Package runner runs the work that is stored in the database. It claims rows of work, runs their
// scripts operation by operation under a lease, stores the progress of each, and resumes the work
// of processes that stopped. Its owner, the conductor, says which operations a kind of work has and
// what their end means for the node. Of package driver, the runner knows only the turns of calls.
//
// Invariants: A call that changes a machine is made only under a lease that is valid until after
// the call's deadline. The database has the beginning of the call on disk before the call, and its
// outcome before the next call. After a temporary failure, work is tried again from its row, not
// from memory. No other process works on the node before the deadline of a call has passed, and the
// process that then does is told that the outcome of that call is unknown.
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Config says how a runner works. Every field but Observer and Jitter must be set.
type Config struct {
	Hostname string        // name in leases, unique among the processes of one database
	LeaseTTL time.Duration // how long a lease is valid without renewal

	CallTimeout    time.Duration // limit of one call to a machine, unless its operation has its own
	ProcessTimeout time.Duration // limit of one operation that keeps a processor busy
	Processors     int           // such operations at once
	Sessions       int           // jobs of each lane in progress at once, most of which wait for machines

	MaxAttempts     int           // number of attempts when the failure may be temporary
	CallbackTimeout time.Duration // time without a heartbeat in a waiting state before the work fails
	// HeartbeatTimeout is the time within which a running agent sends a heartbeat.
	HeartbeatTimeout time.Duration

	Observer Observer
	// Jitter spreads pauses; nil keeps them as they are.
	Jitter func(time.Duration) time.Duration
}

// Database is the part of a store that the runner needs.
type Database interface {
	Write(ctx context.Context, fn func(*store.Tx) error) error
	Read(ctx context.Context, fn func(*store.Tx) error) error
	ReadSingle(ctx context.Context, fn func(*store.Tx) error) error
	Now() time.Time
}

// Conductor has the scripts, and stores what work means for a node.
type Conductor interface {
	// Script returns the script of a kind of work; false for a kind that this version
	// does not know.
	Script(kind store.WorkKind) (Script, bool)
	// Kinds returns a new list of the kinds that have a script; each lane has some.
	Kinds() []store.WorkKind
	// BMC returns the name of the BMC that calls for the node go to.
	BMC(n *node.Node) string
	// Scope says which work to leave to other processes.
	Scope(tx *store.Tx) (store.WorkScope, error)
	// Move applies a trigger to the provision state of a node.
	Move(tx *store.Tx, n *node.Node, on node.Trigger) error
	// Failed writes into the node that work has finally failed. The script has already written what
	// is special to it.
	Failed(tx *store.Tx, w *store.Work, n *node.Node, reason string) error
	// Noted writes a remark of an operation about a machine into the history.
	Noted(tx *store.Tx, w *store.Work, n *node.Node, text string) error
	// Ended records the end of work, after the script has changed the node.
	Ended(tx *store.Tx, w *store.Work, before, after *node.Node) error
}

// Observer is told how work ends, for metrics. Its methods are called from many
// goroutines and must not wait.
type Observer interface {
	// WorkEnded is called when one attempt at a piece of work ends.
	WorkEnded(kind string, outcome Outcome, took time.Duration)
	// LeaseWaited is called when a request had to wait for a locked node. It got its turn, or gave
	// up and was refused.
	LeaseWaited(took time.Duration, gotTurn bool)
}

// Runner works on the nodes of one database. Its methods are safe for concurrent
// use.
type Runner struct {
	cfg       Config
	db        Database
	conductor Conductor
	gate      *Gate
	log       *slog.Logger

	processors *semaphore.Weighted
	queue      *queue
	leases     *leases
	exclusive  *exclusive
	waiters    *waiters
	ignored    *ignored
	listening  listening
	claim      chan struct{} // wakes claimLoop

	ended    chan struct{} // closed by Stop: nothing new begins
	end      func()
	cancel   context.CancelFunc // ends the calls under way
	loops    sync.WaitGroup
	sessions sync.WaitGroup

	starting sync.Mutex // keeps sessions from beginning after Stop
}

// New returns a runner. It does nothing before Start.
func New(db Database, conductor Conductor, gate *Gate, cfg Config, log *slog.Logger) *Runner {
	if cfg.Jitter == nil {
		cfg.Jitter = func(d time.Duration) time.Duration { return d }
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	ended := make(chan struct{})
	r := &Runner{
		cfg: cfg, db: db, conductor: conductor, gate: gate, log: log,
		processors: semaphore.NewWeighted(int64(cfg.Processors)),
		leases:     newLeases(), exclusive: newExclusive(), waiters: newWaiters(db), ignored: newIgnored(),
		claim: make(chan struct{}, 1),
		ended: ended, end: sync.OnceFunc(func() { close(ended) }),
	}
	r.queue = newQueue(r.laneOf)
	return r
}

// Start starts the work. The caller has already ended the leases that an earlier process of the
// same name left, see store.Tx.EndLeasesKeepBusy.
func (r *Runner) Start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.listening.begin(r.db.Now())
	r.loops.Go(func() { r.claimLoop(ctx) })
	r.loops.Go(func() { r.renewLoop(ctx) })
	for l := range lanes {
		r.loops.Go(func() { r.dispatch(ctx, l) })
	}
}

// Stop begins no new work. It waits for calls in progress and stores their outcomes,
// until ctx ends; then it cancels them and no longer waits. A runner that was never started
// has nothing to stop.
func (r *Runner) Stop(ctx context.Context) error {
	if r.cancel == nil {
		return nil
	}
	r.starting.Lock()
	r.end()
	r.starting.Unlock()
	r.queue.close()
	idle := make(chan struct{})
	go func() { // ends with the sessions; their calls have deadlines
		r.sessions.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("wait for calls under way: %w", ctx.Err())
	}
	r.cancel()
	r.loops.Wait()
	if err != nil {
		return err
	}
	if err := r.db.Write(ctx, r.giveBack); err != nil {
		return fmt.Errorf("give leases back: %w", err)
	}
	return nil
}

// giveBack gives every lease back. Machines are not busy any more with calls that were never made.
func (r *Runner) giveBack(tx *store.Tx) error {
	for _, lease := range r.queue.uncalled() {
		if err := tx.EndBusy(&lease); err != nil {
			return err
		}
	}
	return tx.EndLeasesKeepBusy(r.cfg.Hostname)
}

// Interrupted says that a write failed. Writes of heartbeats fail at the same time, so this process
// may have missed agents.
func (r *Runner) Interrupted() { r.listening.interrupt() }

// ListeningSince returns the time since which this process has received heartbeats without a break,
// by the database's clock; the zero value before Start.
func (r *Runner) ListeningSince() time.Time { return r.listening.begun() }

// stopping reports whether Stop was called.
func (r *Runner) stopping() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// admit counts a session that Stop waits for; it returns false after Stop. The session ends with
// sessions.Done.
func (r *Runner) admit() bool {
	r.starting.Lock()
	defer r.starting.Unlock()
	if r.stopping() {
		return false
	}
	r.sessions.Add(1)
	return true
}

// pause waits, but not beyond ctx or Stop. It reports whether the time has passed.
func (r *Runner) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.ended:
	case <-timer.C:
		return true
	}
	return false
}

// laneOf returns the lane of a kind of work.
func (r *Runner) laneOf(kind store.WorkKind) lane {
	if script, ok := r.conductor.Script(kind); ok && script.Processor {
		return processorLane
	}
	return machineLane
}

// dispatch starts a session for each job of a lane.
func (r *Runner) dispatch(ctx context.Context, l lane) {
	places := semaphore.NewWeighted(int64(r.cfg.Sessions))
	for {
		j, ok := r.queue.pop(l)
		if !ok {
			return
		}
		if places.Acquire(ctx, 1) != nil || !r.admit() {
			r.queue.push(j) // Stop looks for it there
			return
		}
		go func() { // Stop waits for it
			defer r.sessions.Done()
			defer places.Release(1)
			r.runJob(ctx, j)
		}()
	}
}

// RunNext makes one attempt at the work that has waited longest, in the calling goroutine. It
// returns false when no work waits. It is for callers that have not started the runner, such as
// tests.
func (r *Runner) RunNext(ctx context.Context) bool {
	j := r.queue.takeFirst()
	if j == nil {
		return false
	}
	r.runJob(ctx, j)
	return true
}
