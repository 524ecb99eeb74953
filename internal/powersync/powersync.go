// Package powersync keeps the stored power states of nodes and those of their machines
// the same. Each node has a due time of its own, so that the reads of many machines are
// distributed evenly. A machine that does not answer does not delay others: reads wait
// in goroutines, and nodes that did not answer the last time, and those in maintenance
// because of that, have a separate number of calls.
//
// It knows no verb and changes no machine. It stores the observed power state, or has its
// owner restore the stored one. When many machines differ from their stored states, the
// stored states are more likely wrong: then it suspends, in the database, what engines do
// by themselves, and nothing is restored until a person decides.
//
// Its state in memory is only a schedule: right before a machine is read, and again in the
// write that follows, it reads the node from the database.
package powersync

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Config says how power states are read. Every field but Accept must be set.
type Config struct {
	Interval    time.Duration // how often the power of a node is read
	Recovery    time.Duration // how often that of a node with the fault power failure is
	Tries       int           // readings that may fail in a row before a node gets that fault, at least 1
	Accept      bool          // keep what is observed instead of restoring what is stored
	Calls       int           // calls to machines that the process makes at once, for whatever; readings take half of them
	CallTimeout time.Duration // bound of one reading, and of waiting for its turn
}

// database is where nodes are.
type database interface {
	Write(ctx context.Context, fn func(*store.Tx) error) error
	Read(ctx context.Context, fn func(*store.Tx) error) error
}

// machines are what nodes stand for.
type machines interface {
	Power(n *node.Node) (driver.Power, error)
	// BMC names the BMC that calls for the node go to.
	BMC(n *node.Node) string
}

// gate bounds the calls of the process. Enter waits until a BMC may be called.
type gate interface {
	Enter(ctx context.Context, bmc string) (leave func(), err error)
}

// owner decides for which nodes it is done, and does what goes beyond one commit.
type owner interface {
	// Watch returns which nodes this process is responsible for, and a text that is another one
	// when that may have changed for nodes that did not.
	Watch(tx *store.Tx) (watches func(*node.Node) bool, version string, err error)
	// Restore stores that the machine is to get the power state that its node
	// has. Begin starts that after the commit.
	Restore(tx *store.Tx, n *node.Node) (begin func(), err error)
	// CheckOwner returns an error when the node's BMC belongs to the machine of another node.
	CheckOwner(ctx context.Context, n *node.Node) error
	// Suspend suspends work and the restoring of power states until a person lets them go
	// on, unless that was done, which began tells. The detail says why, without a period.
	Suspend(tx *store.Tx, detail string) (began bool, err error)
	// Record appends to the node's history.
	Record(tx *store.Tx, n *node.Node, severity node.Severity, message string) error
}

// Syncer synchronizes the power states of the nodes of one process. Its methods are
// safe for concurrent use.
type Syncer struct {
	cfg      Config
	db       database
	machines machines
	gate     gate
	owner    owner
	log      *slog.Logger
	list     list // of one goroutine

	mu        sync.Mutex // of everything below
	suspended suspended
	nodes     map[int64]*entry
	lanes     [laneCount]*lane
}

// New returns a syncer that does nothing before Run.
func New(db database, m machines, g gate, o owner, cfg Config, log *slog.Logger) *Syncer {
	s := &Syncer{cfg: cfg, db: db, machines: m, gate: g, owner: o, log: log, list: newList(), nodes: map[int64]*entry{}}
	for kind := range laneCount {
		s.lanes[kind] = newLane(kind, cfg)
	}
	return s
}

// Run reads power states until ctx ends, and returns when the last reading has.
func (s *Syncer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, l := range s.lanes {
		running.Go(func() { s.serve(runner.WithInfo(ctx, &runner.Info{Task: l.task}), l) })
	}
	s.refreshLoop(runner.WithInfo(ctx, &runner.Info{Task: "power sync list"}))
}
