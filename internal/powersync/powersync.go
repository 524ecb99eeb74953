// Package powersync keeps the power states that the database has of nodes equal to the power states
// of their machines. Each node has a due time of its own, which spreads the reads of many machines
// evenly. A machine that does not answer does not delay others: reads wait in goroutines, and nodes
// that did not answer last time, or that are in maintenance because of that, have a separate number
// of calls.
//
// The package knows no verb and changes no machine. It stores the observed power state, or has its
// owner restore the stored one. When many machines differ from their stored states, the stored
// states are more likely wrong. The package then suspends, in the database, everything that engines
// do by themselves, and restores nothing until a person decides.
//
// The package's state in memory is only a schedule: it reads a node from the database right before
// it reads the node's machine, and again in the write that follows.
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
	Recovery    time.Duration // how often the power of a node with the fault "power failure" is read
	Tries       int           // failed readings in a row that give a node that fault, at least 1
	Accept      bool          // store the observed power state instead of restoring the stored one
	Calls       int           // calls to machines at once in the whole process; readings take half of them
	CallsPerBMC int           // calls to one BMC at once
	CallTimeout time.Duration // limit for one reading, and for waiting for its turn
}

// database holds the nodes.
type database interface {
	Write(ctx context.Context, fn func(*store.Tx) error) error
	Read(ctx context.Context, fn func(*store.Tx) error) error
}

// machines gives access to the machines of nodes.
type machines interface {
	Power(n *node.Node) (driver.Power, error)
	// BMC returns the name of the BMC that calls for the node go to.
	BMC(n *node.Node) string
}

// gate limits the calls of the process. Enter waits until the BMC may be called.
type gate interface {
	Enter(ctx context.Context, bmc string) (leave func(), err error)
}

// owner decides which nodes the syncer serves, and does what takes more than one commit.
type owner interface {
	// Watch returns a function that reports whether this process is responsible for a node. Version
	// is a text that changes when the answer may have changed for nodes that did not change
	// themselves.
	Watch(tx *store.Tx) (watches func(*node.Node) bool, version string, err error)
	// Restore stores the request to bring the machine back to its node's power state. The caller
	// calls begin after the commit, to start that.
	Restore(tx *store.Tx, n *node.Node) (begin func(), err error)
	// CheckBMCIsOwn returns an error when the node's BMC belongs to the machine of another node.
	CheckBMCIsOwn(ctx context.Context, n *node.Node) error
	// Suspend suspends work and the restoring of power states until a person resumes them. Began is
	// false when they were suspended already. The detail says why, without a period.
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
	readings  map[string]int // that are made or wait at a BMC, by its name
}

// New returns a syncer. It does nothing before Run.
func New(db database, m machines, g gate, o owner, cfg Config, log *slog.Logger) *Syncer {
	s := &Syncer{cfg: cfg, db: db, machines: m, gate: g, owner: o, log: log, list: newList(), nodes: map[int64]*entry{}, readings: map[string]int{}}
	for kind := range laneCount {
		s.lanes[kind] = newLane(kind, cfg)
	}
	return s
}

// Run reads power states until ctx ends, and returns when the last reading has ended.
func (s *Syncer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, l := range s.lanes {
		running.Go(func() { s.serve(runner.WithInfo(ctx, &runner.Info{Task: l.task}), l) })
	}
	s.refreshLoop(runner.WithInfo(ctx, &runner.Info{Task: "power sync list"}))
}
