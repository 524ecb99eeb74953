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

	mu      sync.Mutex
	started bool
	ending  bool // it was told to stop
	dead    bool
	stopped chan struct{} // closed when its goroutines have ended
	// told has the effects of whose success this process has heard, with the lease and the time.
	told map[string]hearing
	// ends has, for requests of whose end this process has heard, the epoch of the lease.
	ends map[string]int64
	// verifying has, by request, turns of verifications whose outcome is not stored.
	verifying map[string]*verifyTurn
	// epochs are those of the leases under which it works, by UUID of the node, see noteLease.
	epochs map[string]int64
}

// Times of simulated conductors.
const (
	leaseTTL    = 20 * time.Second
	callTimeout = 10 * time.Second
)

// ramdisks are agents that always answer.
type ramdisks struct{}

func (ramdisks) Answers(context.Context, agent.Endpoint) error { return nil }

// newReplica returns a process that does nothing yet.
func (w *world) newReplica(name string) *replica {
	r := &replica{
		w: w, name: name, stopped: make(chan struct{}), told: map[string]hearing{}, ends: map[string]int64{}, verifying: map[string]*verifyTurn{},
		epochs: map[string]int64{},
	}
	needs := builtin.Dependencies{
		AgentAlive:  func(*node.Node) bool { return true },
		AgentReboot: w.reboot(r),
		FakeMachine: func(n *node.Node) (fake.Machine, bool) { return connection{w.machines[n.UUID], r}, true },
	}
	var agents conductor.Agents = ramdisks{}
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
	if !r.ending {
		go r.end(0)
	}
}

// end stops the goroutines of a process.
func (r *replica) end(patience time.Duration) {
	defer close(r.stopped)
	ctx, cancel := context.WithTimeout(runner.WithInfo(context.Background(), &runner.Info{Task: "stop"}), patience)
	defer cancel()
	err := r.Stop(ctx)
	if err == nil && r.redfish != (redfish.Driver{}) { // otherwise no time is left
		err = r.redfish.Close(ctx)
	}
	if err != nil { // a dead process can reach nothing, and a slow one is out of time
		r.w.sched.fail()
		r.w.mistrust(r)
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

func (r *replica) setEnding() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
}

// runs reports whether the process takes requests.
func (r *replica) runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started && !r.dead && !r.ending
}

func (r *replica) isDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

// hearing is when and under which lease a process heard of the success of an effect.
type hearing struct {
	at    time.Time
	epoch int64
}

// heard notes that the process has heard of the success of an effect.
func (r *replica) heard(e effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[string(e.kind)+" "+e.detail+" "+e.origin.Request] = hearing{at: time.Now(), epoch: e.origin.Epoch}
}

// unheard forgets the successes of a turn that has failed later, because the turn cannot store
// them.
func (r *replica) unheard(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.told, func(what string, _ hearing) bool { return strings.HasSuffix(what, " "+request) })
}

// learn notes that the process has heard that a request is done.
func (r *replica) learn(request string, epoch int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[request] = epoch
}

// learned reports whether the process has heard, under a lease, that a request is done.
func (r *replica) learned(request string, epoch int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, heard := r.ends[request]
	return heard && known == epoch
}

// kept reports whether the process must have stored the success of an effect that begins again.
// That is so if it heard of the success after a time and nothing kept it from storing that: its
// lease still lasts, or it was stopped in order.
func (r *replica) kept(e effect, later time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, told := r.told[string(e.kind)+" "+e.detail+" "+e.origin.Request]
	return told && h.at.After(later) && !r.dead && (h.epoch == e.origin.Epoch || r.ending && !r.w.sched.failedWithin(h.at, time.Now()))
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
	case v == away:
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
	w.committing.Lock()
	defer w.committing.Unlock()
	var verified func()
	if err := w.db.Write(ctx, func(tx *store.Tx) (err error) {
		if verified, err = d.r.checkVerifier(tx, info); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		return w.checkBMC(tx, info)
	}); err != nil {
		return err
	}
	verified()
	w.stored(info)
	d.r.noteLease()
	return nil
}

func (d *database) Read(ctx context.Context, fn func(*store.Tx) error) error {
	d.r.w.sched.at(ctx, d.r, atTurn, taskName(ctx))
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

func (d *database) Older() <-chan struct{} { return d.r.w.db.Older() }

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
