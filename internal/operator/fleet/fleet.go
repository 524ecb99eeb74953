// Package fleet keeps one picture of all nodes of an engine for all controllers
// of a process, so that the cost of watching an engine grows with what changes
// and not with the number of hosts.
//
// It asks the engine only for nodes that changed since the newest change it
// knows, and for all of them every [Options.SweepInterval], because deletions
// show only there. A fleet of up to [Options.SweepAlways] nodes costs one page
// either way and is always asked for whole. Ports are read once per node and
// inspection, and only when somebody asks for a node by MAC address.
package fleet

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// overlap is how far a list of changes reaches back before the newest known
// change. It covers engines that write times in whole seconds, and changes
// that are committed in another order than they are stamped.
const overlap = 5 * time.Second

// Options tune a fleet. Zero values mean the defaults.
type Options struct {
	// Interval is the time between two looks at the engine; 5 s.
	Interval time.Duration
	// SweepInterval is the time between two complete lists; 10 min.
	SweepInterval time.Duration
	// SweepAlways is the number of nodes up to which each list is complete; 100.
	SweepAlways int
	// AgentWindow is how long after its last heartbeat a ramdisk counts as
	// alive; 5 min, the default of the engine's fast-track time-out.
	AgentWindow time.Duration
	// Now is the clock; time.Now.
	Now func() time.Time
	// Logger hears when the engine stops answering and when it answers again;
	// slog's default.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Interval <= 0 {
		o.Interval = 5 * time.Second
	}
	if o.SweepInterval <= 0 {
		o.SweepInterval = 10 * time.Minute
	}
	if o.SweepAlways <= 0 {
		o.SweepAlways = 100
	}
	if o.AgentWindow <= 0 {
		o.AgentWindow = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Change is a node that came, went, or differs in a way that matters to hosts.
// Heartbeats do not, unless the agent had been silent for too long.
type Change struct {
	// Node is the node's newest snapshot.
	Node provisioner.Node
	// Gone is true when the engine no longer knows the node.
	Gone bool
}

// Fleet is the shared picture. It is safe for concurrent use.
type Fleet struct {
	engine provisioner.Reader
	opts   Options

	// turn is held by the one goroutine that talks to the engine for Refresh.
	turn chan struct{}

	mu        sync.Mutex
	nodes     map[string]provisioner.Node
	macs      map[string]portList
	newest    time.Time // newest UpdatedAt of any node
	sweptAt   time.Time // end of the last complete list
	lookedAt  time.Time // end of the last look, whatever came of it
	lastError error     // what came of it
	listeners []func([]Change)
}

// New returns an empty picture of the nodes of engine.
func New(engine provisioner.Reader, opts Options) *Fleet {
	opts.setDefaults()
	return &Fleet{
		engine: engine,
		opts:   opts,
		turn:   make(chan struct{}, 1),
		nodes:  map[string]provisioner.Node{},
		macs:   map[string]portList{},
	}
}

// Subscribe makes fn hear of changes from now on. It must not block for long
// and must not call back into the fleet's Refresh.
func (f *Fleet) Subscribe(fn func([]Change)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, fn)
}

// Start looks at the engine until ctx ends. Failures are kept for Refresh and
// tried again at the next interval.
func (f *Fleet) Start(ctx context.Context) error {
	ticker := time.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	for {
		// Somebody else may just have looked.
		_ = f.Refresh(ctx, f.opts.Interval/2)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection lets every replica keep its picture fresh, so that a new
// leader starts with one.
func (f *Fleet) NeedLeaderElection() bool { return false }

// Refresh makes the picture at most maxAge old and returns the error of the
// look at the engine that made it so. Callers at the same time share one look.
func (f *Fleet) Refresh(ctx context.Context, maxAge time.Duration) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	age, err := f.opts.Now().Sub(f.lookedAt), f.lastError
	fresh := !f.lookedAt.IsZero() && age < maxAge
	list, complete := f.nextList()
	f.mu.Unlock()
	if fresh {
		return err
	}
	nodes, err := f.engine.Nodes(ctx, list)
	if ctx.Err() != nil {
		return ctx.Err()
	}

	f.mu.Lock()
	f.logOutcome(f.lastError, err)
	f.lookedAt, f.lastError = f.opts.Now(), err
	var changes []Change
	if err == nil {
		changes = f.merge(nodes, complete)
	}
	f.mu.Unlock()
	f.publish(changes)
	return err
}

// logOutcome tells when looks at the engine begin and cease to fail. Everybody
// else learns of it from conditions.
func (f *Fleet) logOutcome(before, now error) {
	switch {
	case now != nil && before == nil:
		f.opts.Logger.Warn("Engine cannot be read", "err", now)
	case now == nil && before != nil:
		f.opts.Logger.Info("Engine can be read again")
	}
}

// nextList says what to ask the engine for, and whether that is everything.
func (f *Fleet) nextList() (provisioner.ListOptions, bool) {
	due := f.opts.Now().Sub(f.sweptAt) >= f.opts.SweepInterval
	if f.sweptAt.IsZero() || due || f.newest.IsZero() || len(f.nodes) <= f.opts.SweepAlways {
		return provisioner.ListOptions{}, true
	}
	return provisioner.ListOptions{ChangedSince: f.newest.Add(-overlap), Limit: f.opts.SweepAlways}, false
}

func (f *Fleet) merge(nodes []provisioner.Node, complete bool) []Change {
	var changes []Change
	seen := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		seen[n.ID] = true
		if c, ok := f.put(n); ok {
			changes = append(changes, c)
		}
	}
	if !complete {
		return changes
	}
	f.sweptAt = f.opts.Now()
	for id, n := range f.nodes {
		if !seen[id] {
			changes = append(changes, f.drop(n))
		}
	}
	return changes
}

// put stores a snapshot and tells whether anybody has to hear of it. A snapshot
// somewhat older than the stored one is ignored: it was read before and came
// later. A much older one comes from an engine whose data was restored.
func (f *Fleet) put(n provisioner.Node) (Change, bool) {
	old, known := f.nodes[n.ID]
	if age := old.UpdatedAt.Sub(n.UpdatedAt); known && age > 0 && age < time.Minute {
		return Change{}, false
	}
	f.nodes[n.ID] = n
	if n.UpdatedAt.After(f.newest) {
		f.newest = n.UpdatedAt
	}
	return Change{Node: n}, !known || differs(old, n, f.opts.AgentWindow)
}

func (f *Fleet) drop(n provisioner.Node) Change {
	delete(f.nodes, n.ID)
	delete(f.macs, n.ID)
	return Change{Node: n, Gone: true}
}

// differs tells whether a host could be affected by the change from a to b.
func differs(a, b provisioner.Node, window time.Duration) bool {
	if b.Agent.LastHeartbeat.Sub(a.Agent.LastHeartbeat) > window {
		return true
	}
	if known := a.AutoDiscovered != nil; known != (b.AutoDiscovered != nil) || known && *a.AutoDiscovered != *b.AutoDiscovered {
		return true
	}
	for _, n := range []*provisioner.Node{&a, &b} {
		n.UpdatedAt, n.Agent.LastHeartbeat, n.AutoDiscovered = time.Time{}, time.Time{}, nil
		n.Busy = false // every heartbeat may lock the node for a moment
	}
	return a != b
}

func (f *Fleet) publish(changes []Change) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	listeners := slices.Clone(f.listeners)
	f.mu.Unlock()
	for _, fn := range listeners {
		fn(changes)
	}
}
