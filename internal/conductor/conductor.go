// Package conductor accepts requests of the API, stores the new state of a node
// together with the work that the request asks for in one commit, and has the work
// done. A process that dies at any line loses nothing: its work is a row in the
// database, which the next conductor resumes.
//
// It serves no HTTP and has no SQL. Decisions are pure functions of other packages (node
// for states, inspect for lookup, agent for tokens); this package reads what they
// need and stores what they decide in one transaction. Which operations a kind of
// work consists of is a table of scripts (scripts.go); package runner runs them.
package conductor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/powersync"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/unixcrypt"
)

// Config says how a conductor works. Package engine has the defaults; only the fields whose
// comments say so have a default here.
type Config struct {
	Hostname string // name in leases, unique among conductors of one database
	Group    string // conductor group whose nodes it serves

	Workers     int           // jobs that may use the processor at once, at least 1
	WorkTimeout time.Duration // bound of one attempt of such a job
	Calls       int           // calls to machines at once, at least 1
	CallsPerBMC int           // calls to one BMC at once, at least 1
	CallTimeout time.Duration // bound of one call to a machine
	LeaseTTL    time.Duration // how long a lease is valid without renewal
	LockWait    time.Duration // how long a request waits for a node under work
	MaxAttempts int           // how often work is tried when its failure may be temporary
	// Jitter changes the length of a pause, so that nodes that wait for the same
	// reason do not all continue at once; nil shortens it by up to a quarter at random.
	Jitter func(time.Duration) time.Duration

	// ResumeAfterRestore resumes the work in a restored database without a person.
	ResumeAfterRestore bool

	AutomatedClean bool // whether provide cleans nodes whose automated_clean is not set
	// RefusedCleanSteps are steps that clients may not ask for, as
	// interface.step. Automated cleaning runs them all the same.
	RefusedCleanSteps []string
	// CleanPriorities are priorities in automated cleaning of steps of the deploy interface, by
	// the name of the step. They replace those of drivers and agents. 0 leaves a step out.
	CleanPriorities map[string]int

	Logs RamdiskLogs // of ramdisks

	// RescueHash is how passwords of rescue systems are hashed; empty means SHA-256.
	RescueHash unixcrypt.Algorithm

	HeartbeatTimeout time.Duration // silence after which an agent counts as gone
	FastTrack        bool          // whether ramdisks are kept between phases
	AgentRules       agent.Rules
	Agents           Agents // finds out whether agents still live
	Discovery        Discovery
	Inspection       Inspection
	Inventories      Inventories
	Observer         Observer // is told what happens, for metrics; nil means nobody
	Limits           Limits   // zero fields have defaults
}

// Discovery says whether and how unknown machines are enrolled. Their inspection posts are
// not authenticated, so everything about them is bounded.
type Discovery struct {
	Enabled  bool
	Driver   string  // hardware type of enrolled nodes
	MaxNodes int     // discovered nodes; beyond it, posts of unknown machines get node.ErrBusy
	MaxPorts int     // MAC addresses and ports of a node that no person has accepted, at least 1
	Rate     float64 // unknown machines enrolled per second, in the long run
	Burst    int     // unknown machines enrolled at once
	Allow    inspect.AllowList
	// Scope becomes properties.inspection_scope of enrolled nodes; empty for none.
	Scope string
}

// Database is the part of a store that a conductor needs.
type Database interface {
	runner.Database
	Ping(ctx context.Context) error
	RestorationFound() <-chan struct{}
}

// Conductor serves the nodes of one database. Its methods are safe for
// concurrent use between Start and Stop.
type Conductor struct {
	cfg      Config
	store    Database
	drivers  *driver.Registry
	pipeline *inspect.Pipeline
	log      *slog.Logger
	observer Observer
	scripts  map[store.WorkKind]runner.Script
	runner   *runner.Runner
	gate     *runner.Gate
	power    *powersync.Syncer
	trims    trims

	enrolments *enrolmentRate
	refusals   *loglimit.Logger
	ignored    *loglimit.Logger // for parts of inventories that are ignored
	calls      *agentCalls
	discovered discovered
	allocate   chan struct{} // wakes allocateLoop
	garbage    chan struct{} // wakes garbageLoop

	registered registrations

	suspendedSince time.Time // of the last suspension that was logged; for Start and registerLoop

	stop    context.CancelFunc
	running sync.WaitGroup
}

// sessionsPerCall is how many sessions one process runs for each call to a machine
// that it may make at once: most sessions wait until their BMC is free.
const sessionsPerCall = 4

// New returns a conductor that does nothing before Start.
func New(db Database, drivers *driver.Registry, pipeline *inspect.Pipeline, cfg Config, log *slog.Logger) *Conductor {
	observer := cfg.Observer
	if observer == nil {
		observer = noObserver{}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Inspection.Resolver == nil {
		cfg.Inspection.Resolver = net.DefaultResolver
	}
	if cfg.Jitter == nil {
		cfg.Jitter = jitter
	}
	cfg.RescueHash = cmp.Or(cfg.RescueHash, unixcrypt.SHA256)
	c := &Conductor{
		cfg: cfg, store: db, drivers: drivers, pipeline: pipeline, log: log, observer: observer,
		gate:       runner.NewGate(cfg.Calls, cfg.CallsPerBMC),
		enrolments: newEnrolmentRate(cfg.Discovery.Rate, cfg.Discovery.Burst), refusals: loglimit.New(log, refusalsASecond, refusalsAtOnce),
		ignored:  loglimit.New(log, refusalsASecond, refusalsAtOnce),
		calls:    newAgentCalls(cfg.Agents, db.Now),
		allocate: make(chan struct{}, 1), garbage: make(chan struct{}, 1),
	}
	c.scripts = c.workScripts()
	c.runner = runner.New(db, c, c.gate, runner.Config{
		Hostname: cfg.Hostname, LeaseTTL: cfg.LeaseTTL, CallTimeout: cfg.CallTimeout,
		ProcessTimeout: cfg.WorkTimeout, Processors: cfg.Workers, Sessions: sessionsPerCall * cfg.Calls,
		MaxAttempts: cfg.MaxAttempts, CallbackTimeout: cfg.Limits.CallbackTimeout, HeartbeatTimeout: cfg.HeartbeatTimeout, Observer: observer, Jitter: cfg.Jitter,
	}, log)
	c.power = c.newPowerSync()
	return c
}

// jitter shortens a pause by up to a quarter.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/4+1) //nolint:gosec // it only keeps nodes apart
}

// Start registers the conductor, takes back the leases of an earlier process of the
// same name, and begins to work. Requests may come once it has returned. In a database
// that is a copy of an older state, it suspends the work, and resumes it at once if
// ResumeAfterRestore is set.
func (c *Conductor) Start(ctx context.Context) error {
	var copied bool
	var at time.Time
	err := c.store.Write(ctx, func(tx *store.Tx) (err error) {
		if copied, err = c.countUse(tx); err != nil {
			return err
		}
		if err := tx.EndLeasesKeepBusy(c.cfg.Hostname); err != nil {
			return err
		}
		at = tx.Now()
		return c.register(tx)
	})
	if err == nil {
		c.registered.add(at)
		err = c.followSuspension(ctx, copied)
	}
	if err != nil {
		return fmt.Errorf("register conductor %s: %w", c.cfg.Hostname, err)
	}
	if err := c.claimNotedMachines(ctx); err != nil {
		return fmt.Errorf("claim the machines that nodes stand for: %w", err)
	}
	if c.cfg.Inventories.Objects == nil {
		if err := c.warnWithoutObjectStore(ctx); err != nil {
			return err
		}
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.runner.Start(ctx)
	c.loop(ctx, "register", c.registerLoop)
	c.loop(ctx, "allocate", c.allocateLoop)
	if c.cfg.Limits.PowerSync >= 0 {
		c.loop(ctx, "power sync", c.power.Run)
	}
	if c.cfg.Inventories.Objects != nil {
		c.loop(ctx, "garbage", c.garbageLoop)
	}
	return nil
}

// loop starts a background loop that runs until Stop.
func (c *Conductor) loop(ctx context.Context, name string, run func(context.Context)) {
	ctx = runner.WithInfo(ctx, &runner.Info{Task: name})
	c.running.Go(func() { run(ctx) })
}

// Stop begins no new work, waits for calls to machines that are in progress, and
// gives back every lease, so that another conductor can go on at once. Work that has
// not stopped when ctx ends keeps its lease until that expires, because its call may
// still reach the machine. A conductor that was never started has nothing to stop.
func (c *Conductor) Stop(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.stop()
	idle := make(chan struct{})
	go func() { // ends when the loops do; their calls have deadlines
		c.running.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("wait for background loops: %w", ctx.Err())
	}
	return errors.Join(err, c.runner.Stop(ctx))
}

// Times of conductors.
const (
	aliveFor      = time.Minute      // a conductor that has not registered for longer counts as dead
	registerTick  = 20 * time.Second // how often a conductor registers again
	registerAgain = 2 * time.Second  // how soon it tries again when that failed
)

// registerLoop registers this conductor every registerTick, and at once when the database was
// found to be a copy of an older state.
func (c *Conductor) registerLoop(ctx context.Context) {
	timer := time.NewTimer(registerTick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.store.RestorationFound():
		}
		wait := registerTick
		if err := c.keepAlive(ctx); err != nil && ctx.Err() == nil {
			wait = registerAgain
			c.runner.Interrupted()
			c.log.Error("Conductor could not register that it is alive", "err", err)
		}
		timer.Reset(wait)
	}
}

// keepAlive registers this conductor. It also notices when an older copy has replaced the
// database, or when somebody has suspended work.
func (c *Conductor) keepAlive(ctx context.Context) error {
	var at time.Time
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := c.countUse(tx); err != nil {
			return err
		}
		at = tx.Now()
		return c.register(tx)
	})
	if err != nil {
		return err
	}
	c.registered.add(at)
	return c.followSuspension(ctx, true)
}

// ListeningSince returns the time since which this process has heard agents without a break, by
// the database's clock. Agents may have sent heartbeats before that time which it did not hear.
func (c *Conductor) ListeningSince() time.Time { return c.runner.ListeningSince() }

// Ready returns an error while the database does not answer.
func (c *Conductor) Ready(ctx context.Context) error { return c.store.Ping(ctx) }

// Conductors returns the conductors of the database and whether they are alive.
func (c *Conductor) Conductors(ctx context.Context) ([]node.Conductor, error) {
	var conductors []node.Conductor
	err := c.store.Read(ctx, func(tx *store.Tx) (err error) {
		conductors, err = tx.Conductors(aliveFor)
		return err
	})
	return conductors, err
}

// register stores that this conductor is alive, and has the discovered nodes counted
// again, because other conductors enrol and delete nodes, too.
func (c *Conductor) register(tx *store.Tx) error {
	if err := c.discovered.recount(tx); err != nil {
		return err
	}
	return tx.RegisterConductor(c.self())
}

func (c *Conductor) self() node.Conductor {
	return node.Conductor{Hostname: c.cfg.Hostname, Group: c.cfg.Group, Drivers: c.drivers.Names()}
}

// whenFree repeats a request while its node is under work, for at most LockWait.
func (c *Conductor) whenFree(ctx context.Context, request func() error) error {
	passes := func(err error) bool {
		var final finalLockError
		return isLocked(err) && !errors.As(err, &final)
	}
	return c.runner.WhenFree(ctx, c.cfg.LockWait, passes, func() error {
		err := request()
		if passes(err) && !fairqueue.Release(ctx) {
			return errWaiters
		}
		return err
	})
}

// errWaiters refuses a request of a ramdisk that would have to wait for a lease or for its
// enrolment, while too many others wait. Ramdisks retry the request. It is also the
// reason why the logs in a post are not kept then.
var errWaiters = fmt.Errorf("wait for others: too many requests do: %w", node.ErrBusy)

// finalLockError is a *node.LockedError for which waiting would be useless.
type finalLockError struct{ *node.LockedError }

func (e finalLockError) Unwrap() error { return e.LockedError }

func isLocked(err error) bool { return errors.Is(err, node.ErrLocked) }
