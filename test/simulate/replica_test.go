package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/httpapi"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// errDead is the error of everything that the goroutines of a dead process do.
var errDead = errors.New("this process is dead")

// replica is one process of the engine: a conductor with its runner. It reaches the
// database and the machines through the scheduler.
type replica struct {
	*conductor.Conductor
	w       *world
	name    string // hostname
	redfish redfish.Driver
	api     func() http.Handler // for agents

	mu       sync.Mutex
	started  bool
	stopping bool // it is stopped in order
	dead     bool
	stopped  chan struct{} // closed when its goroutines have ended
	// acknowledged has the effects whose success a machine has acknowledged to this process.
	acknowledged map[string]acknowledgement
	// completed has, for requests that a machine has reported to this process as done, the epoch of
	// the lease.
	completed map[string]int64
	// verifying has, by request, turns of verifications whose outcome is not stored.
	verifying map[string]*verifyTurn
	// leaseEpochs are the epochs of the leases under which it works, by UUID of the node, see
	// noteLease.
	leaseEpochs map[string]int64
}

// Times of simulated conductors.
const (
	leaseTTL    = 20 * time.Second
	callTimeout = 10 * time.Second
)

// fakeAgents are agents that always answer.
type fakeAgents struct{}

func (fakeAgents) Answers(context.Context, agent.Endpoint) error { return nil }

// newReplica returns a process that does nothing yet.
func (w *world) newReplica(name string) *replica {
	r := &replica{
		w: w, name: name, stopped: make(chan struct{}), acknowledged: map[string]acknowledgement{}, completed: map[string]int64{}, verifying: map[string]*verifyTurn{},
		leaseEpochs: map[string]int64{},
	}
	needs := builtin.Dependencies{
		AgentAlive:  func(*node.Node) bool { return true },
		AgentReboot: w.reboot(r),
		FakeMachine: func(n *node.Node) (fake.Machine, bool) { return connection{w.machines[n.UUID], r}, true },
	}
	var agents conductor.Agents = fakeAgents{}
	var bootRetry time.Duration
	if len(w.computers) > 0 {
		needs, agents = r.dependencies(), r.agentCalls()
		// While processes are restarted one after the other, their settings may differ.
		bootRetry = pick(w.sched, []time.Duration{0, 6 * time.Minute})
	}
	drivers, err := builtin.New(driver.Config{}, needs)
	if err != nil {
		panic(err)
	}
	pipeline, err := inspect.NewPipeline(inspect.DefaultConfig())
	if err != nil {
		panic(err)
	}
	r.Conductor = conductor.New(&database{r}, drivers, pipeline, conductor.Config{
		Hostname: name, Workers: 2, WorkTimeout: time.Minute, Calls: 16, CallsPerBMC: 1, CallTimeout: callTimeout,
		LeaseTTL: leaseTTL, LockWait: time.Second, MaxAttempts: 3, HeartbeatTimeout: heartbeatTimeout,
		Jitter:     func(d time.Duration) time.Duration { return d },
		AgentRules: agent.Rules{}, Agents: agents,
		Discovery:  conductor.Discovery{Rate: 1e6, Burst: 1e6},
		Inspection: conductor.Inspection{UnmanagedBoot: true},
		Limits:     conductor.Limits{CallbackTimeout: w.callbackTimeout(), BootRetry: bootRetry, PowerSync: 3 * time.Minute, PowerRecovery: 4 * time.Minute},
	}, slog.New(w.logs(name)))
	r.api = sync.OnceValue(func() http.Handler {
		return httpapi.New(r.Conductor, httpapi.Options{Drivers: drivers, Logger: slog.New(w.logs(name)), Now: w.db.Now})
	})
	return r
}

// callbackTimeout is how long nodes wait for their ramdisk. The boot of a machine takes a part of
// this time.
func (w *world) callbackTimeout() time.Duration {
	if len(w.computers) > 0 {
		return 25 * time.Minute
	}
	return 5 * time.Minute
}

// die makes everything that the process does from now on fail and leave no trace.
func (r *replica) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return
	}
	r.dead = true
	if !r.stopping {
		go r.shutDown(0)
	}
}

// shutDown stops the goroutines of a process.
func (r *replica) shutDown(timeout time.Duration) {
	defer close(r.stopped)
	ctx, cancel := context.WithTimeout(runner.WithInfo(context.Background(), &runner.Info{Task: "stop"}), timeout)
	defer cancel()
	err := r.Stop(ctx)
	if err == nil && r.redfish != (redfish.Driver{}) { // otherwise no time is left
		err = r.redfish.Close(ctx)
	}
	if err != nil { // a dead process can reach nothing, and a slow one is out of time
		r.w.sched.noteFailure()
		r.w.noteUnknownCalls(r)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dead = true
	}
}

func (r *replica) setStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
}

func (r *replica) setStopping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
}

// isRunning reports whether the process takes requests.
func (r *replica) isRunning() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started && !r.dead && !r.stopping
}

func (r *replica) isDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

// acknowledgement is when and under which lease a process has received the success of an effect.
type acknowledgement struct {
	at    time.Time
	epoch int64
}

// noteAcknowledged notes that the process has received the success of an effect.
func (r *replica) noteAcknowledged(e effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acknowledged[string(e.kind)+" "+e.detail+" "+e.origin.Request] = acknowledgement{at: time.Now(), epoch: e.origin.Epoch}
}

// dropAcknowledged drops the successes of a turn that has failed later, because the turn cannot
// store them.
func (r *replica) dropAcknowledged(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.acknowledged, func(key string, _ acknowledgement) bool { return strings.HasSuffix(key, " "+request) })
}

// noteCompleted notes that the process has received the end of a request.
func (r *replica) noteCompleted(request string, epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completed[request] = epoch
}

// knowsCompleted reports whether the process has received the end of a request under a lease.
func (r *replica) knowsCompleted(request string, epoch int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	noted, ok := r.completed[request]
	return ok && noted == epoch
}

// mustHaveStored reports whether the process must have stored the success of an effect that begins
// again. That is so if it received the success after the effect was last undone, and nothing kept
// it from storing that: its lease still lasts, or it was stopped in order.
func (r *replica) mustHaveStored(e effect, undoneAt time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ack, acknowledged := r.acknowledged[string(e.kind)+" "+e.detail+" "+e.origin.Request]
	return acknowledged && ack.at.After(undoneAt) && !r.dead && (ack.epoch == e.origin.Epoch || r.stopping && !r.w.sched.failedWithin(ack.at, time.Now()))
}

// errRolledBack makes the database roll back a write.
var errRolledBack = errors.New("the database could not store it")

// database is the store as a replica reaches it.
type database struct{ r *replica }

var _ conductor.Database = (*database)(nil)

func (d *database) Write(ctx context.Context, fn func(*store.Tx) error) error {
	r := d.r
	if r.isDead() {
		return errDead
	}
	v := r.w.sched.wait(ctx, &point{replica: r, kind: atCommit, name: taskName(ctx), rare: runner.InfoOf(ctx).Operation.Name == "run hooks"})
	switch {
	case r.isDead(), v == crashBefore:
		r.die()
		return errDead
	case v == databaseUnavailable:
		return &node.UnavailableError{Reason: "The database is away."}
	case v == rolledBack:
		err := r.w.db.Write(ctx, func(tx *store.Tx) error { return cmp.Or(fn(tx), errRolledBack) })
		if errors.Is(err, errRolledBack) {
			err = &node.UnavailableError{Reason: "The database could not store it."}
		}
		return err
	}
	if err := d.commit(ctx, fn); err != nil {
		return err
	}
	switch {
	case v == crashAfter:
		r.die()
		return errDead
	case v == answerLost:
		return &node.UnavailableError{Reason: "The answer of the database was lost."}
	}
	return nil
}

// commit stores a write and checks what it made of the nodes before another write can change them.
// The scheduler lets one write at a time proceed, but only until it is free.
func (d *database) commit(ctx context.Context, fn func(*store.Tx) error) error {
	w, info := d.r.w, runner.InfoOf(ctx)
	w.commitMu.Lock()
	defer w.commitMu.Unlock()
	var noteCommitted func()
	if err := w.db.Write(ctx, func(tx *store.Tx) (err error) {
		if noteCommitted, err = d.r.checkVerifier(tx, info); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		return w.checkBMC(tx, info)
	}); err != nil {
		return err
	}
	noteCommitted()
	w.noteCommit(info)
	d.r.noteLease()
	return nil
}

func (d *database) Read(ctx context.Context, fn func(*store.Tx) error) error {
	d.r.w.sched.waitAt(ctx, d.r, atYield, taskName(ctx))
	if d.r.isDead() {
		return errDead
	}
	return d.r.w.db.Read(ctx, fn)
}

func (d *database) ReadSingle(ctx context.Context, fn func(*store.Tx) error) error {
	return d.Read(ctx, fn)
}

func (d *database) Now() time.Time { return d.r.w.db.Now() }

func (d *database) Ping(ctx context.Context) error { return d.r.w.db.Ping(ctx) }

func (d *database) RestorationFound() <-chan struct{} { return d.r.w.db.RestorationFound() }

// logs keeps what the replicas log, for runs that fail.
func (w *world) logs(name string) slog.Handler {
	return slog.NewTextHandler(&logWriter{w: w, name: name}, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

type logWriter struct {
	w    *world
	name string
}

func (l *logWriter) Write(line []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if len(l.w.log) < 5000 {
		l.w.log = append(l.w.log, fmt.Sprintf("%9.3fs %s %s", time.Since(l.w.sched.began).Seconds(), l.name, line))
	}
	return len(line), nil
}
