// Package conductor works on nodes. It accepts requests from the API, records
// them with the work they ask for in one commit, and does the work under a lease
// so that a process that dies at any line loses nothing: whoever finds the work
// resumes it.
//
// It knows no HTTP and no SQL. Decisions are pure functions beside it (package
// node for states, inspect for lookup, agent for tokens); here they are read
// from the database, decided and written back in one transaction.
package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Config says how a conductor works. Every field must be set; package engine has
// the defaults.
type Config struct {
	Hostname string // name in leases, unique among conductors of one database
	Group    string // nodes it serves

	Workers     int           // pieces of work done at once, at least 1
	LeaseTTL    time.Duration // how long a lease lives without renewal
	LockWait    time.Duration // how long a request waits for a node under work
	WorkTimeout time.Duration // bound of one piece of work
	MaxAttempts int           // how often work is tried when its failure may pass

	AutomatedClean bool // whether provide cleans nodes that do not say
	// RefusedCleanSteps are steps that clients may not ask for, as
	// interface.step. Automated cleaning runs them all the same.
	RefusedCleanSteps []string

	HeartbeatTimeout time.Duration // silence after which an agent counts as gone
	FastTrack        bool          // whether ramdisks are kept between phases
	AgentRules       agent.Rules
	Discovery        Discovery
	Inspection       Inspection
	Inventories      Inventories
	Observer         Observer // hears what happens; nil means nobody
	Limits           Limits   // zero fields have defaults
}

// Discovery says whether and how unknown machines are enrolled. The callback is
// unauthenticated, so everything about it is bounded.
type Discovery struct {
	Enabled  bool
	Driver   string  // hardware type of enrolled nodes
	MaxNodes int     // discovered nodes, over which posts get node.ErrBusy
	Rate     float64 // inspection posts per second, known machines included
	Burst    int     // posts accepted at once
	Allow    inspect.AllowList
	// Scope becomes properties.inspection_scope of enrolled nodes; empty for none.
	Scope string
}

// Conductor serves the nodes of one database. Its methods are safe for
// concurrent use between Start and Stop.
type Conductor struct {
	cfg      Config
	store    *store.Store
	drivers  *driver.Registry
	pipeline *inspect.Pipeline
	log      *slog.Logger
	observer Observer
	scripts  map[store.WorkKind]script
	failures powerFailures
	trims    trims

	posts      *rate.Limiter
	refusals   *refusals
	discovered discovered
	queue      *queue
	claim      chan struct{} // asks the claim loop to look at the database
	allocate   chan struct{} // asks the allocate loop to look at the database
	garbage    chan struct{} // asks the garbage loop to look at the database

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a conductor that does nothing before Start.
func New(db *store.Store, drivers *driver.Registry, pipeline *inspect.Pipeline, cfg Config, log *slog.Logger) *Conductor {
	observer := cfg.Observer
	if observer == nil {
		observer = silent{}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Inspection.Resolver == nil {
		cfg.Inspection.Resolver = net.DefaultResolver
	}
	return &Conductor{
		cfg: cfg, store: db, drivers: drivers, pipeline: pipeline, log: log, observer: observer,
		scripts: scripts(),
		posts:   rate.NewLimiter(rate.Limit(cfg.Discovery.Rate), cfg.Discovery.Burst), refusals: newRefusals(log),
		queue: newQueue(),
		claim: make(chan struct{}, 1), allocate: make(chan struct{}, 1), garbage: make(chan struct{}, 1),
	}
}

// Start registers the conductor, takes back the nodes that an earlier process of
// the same name worked on, and begins to work. It returns when requests may
// come.
func (c *Conductor) Start(ctx context.Context) error {
	err := c.store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.DropLeases(c.cfg.Hostname); err != nil {
			return err
		}
		return c.register(tx)
	})
	if err != nil {
		return fmt.Errorf("register conductor %s: %w", c.cfg.Hostname, err)
	}
	if c.cfg.Inventories.Objects == nil {
		if err := c.missObjects(ctx); err != nil {
			return err
		}
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	for range c.cfg.Workers {
		c.running.Go(func() { c.work(ctx) })
	}
	c.running.Go(func() { c.claimLoop(ctx) })
	c.running.Go(func() { c.allocateLoop(ctx) })
	c.running.Go(func() { c.renewLoop(ctx) })
	c.running.Go(func() { c.syncLoop(ctx) })
	if c.cfg.Inventories.Objects != nil {
		c.running.Go(func() { c.garbageLoop(ctx) })
	}
	return nil
}

// Stop ends the work that is running at its next wait and gives every lease back
// so that the work goes on wherever the next conductor starts. Work that has not
// ended when ctx does keeps its leases until they expire: it may still be at its
// machine. A conductor that was never started has nothing to stop.
func (c *Conductor) Stop(ctx context.Context) error {
	if c.stop == nil {
		return nil
	}
	c.stop()
	c.queue.close()
	ended := make(chan struct{})
	go func() {
		c.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("wait for running work: %w", ctx.Err())
	}
	if err := c.store.Write(ctx, func(tx *store.Tx) error { return tx.DropLeases(c.cfg.Hostname) }); err != nil {
		return fmt.Errorf("give leases back: %w", err)
	}
	return nil
}

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

// register shows that this conductor lives, and counts the discovered nodes anew:
// other replicas of the database enrol and delete some too.
func (c *Conductor) register(tx *store.Tx) error {
	if err := c.discovered.recount(tx); err != nil {
		return err
	}
	return tx.RegisterConductor(c.self())
}

func (c *Conductor) self() node.Conductor {
	return node.Conductor{Hostname: c.cfg.Hostname, Group: c.cfg.Group, Drivers: c.drivers.Names()}
}

// retryLocked runs a request until the node is no longer under work, but not
// longer than LockWait.
func (c *Conductor) retryLocked(ctx context.Context, request func() error) error {
	return c.retryWhile(ctx, isLocked, request)
}

// retryWhile runs a request until it ends in another way than with a refusal that
// passes, but not longer than LockWait.
func (c *Conductor) retryWhile(ctx context.Context, passes func(error) bool, request func() error) error {
	const pause = 20 * time.Millisecond
	began := time.Now()
	for waited := false; ; waited = true {
		err := request()
		if took := time.Since(began); !passes(err) || took > c.cfg.LockWait {
			if waited {
				c.observer.LeaseWaited(took, !passes(err))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
