// Package nodecache is a cache of the engine's nodes that all controllers of a process share. The
// cost of watching an engine therefore grows with the number of changes and not with the number of
// hosts.
//
// The cache polls the engine for the nodes that have changed since the newest change it knows.
// Every [Options.SweepInterval] it polls for all nodes, because only a complete list shows
// deletions. Up to [Options.SweepAlways] nodes fit into one page, so with so few nodes every list
// is complete.
//
// The ports of a node are read when a controller asks for them, or for a node by MAC address. They
// are read once per inspection, and those of unused nodes again after [Options.PortAge]. The
// inventory of an unused node is read when a controller asks for it, or for a node by the address
// of its BMC, also once per inspection.
package nodecache

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// overlap is how far a list of changes reaches back before the newest known change. It covers
// engines that store times in whole seconds. It also covers changes that are committed in another
// order than their timestamps, up to overlap late. A list that begins at least overlap after the
// newest change was first seen is therefore sure to have all changes up to that one.
const overlap = 5 * time.Second

// While changes are expected, the cache polls after the interval divided by expectedShare.
const expectedShare = 5

// Options tune a cache. Zero values mean the defaults.
type Options struct {
	// Interval is the time between two polls of the engine; 5 s.
	Interval time.Duration
	// SweepInterval is the time between two complete lists; 10 min.
	SweepInterval time.Duration
	// SweepAlways is the number of nodes up to which each list is complete; 100.
	SweepAlways int
	// PortAge is how long the known ports of an unused node count as current; 5 min. An inventory
	// that was missing is read again after the same time.
	PortAge time.Duration
	// AgentWindow is how long after its last heartbeat a ramdisk counts as alive; 5 min, the
	// default of the engine's fast-track timeout.
	AgentWindow time.Duration
	// Now is the clock; time.Now.
	Now func() time.Time
	// Logger gets a line when polls begin to fail and when they succeed again;
	// the default is slog's.
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
	if o.PortAge <= 0 {
		o.PortAge = 5 * time.Minute
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

// Change is a node that was added, deleted, or changed in a way that matters to hosts. When the
// engine has another version, each node is such a change. A heartbeat matters only if the agent had
// been silent for too long.
type Change struct {
	// Node is the node's newest snapshot. Its ID is "" when lists can be read again after an error,
	// because hosts whose node is not known may have waited for that.
	Node provisioner.Node
	// Gone is true when the engine no longer knows the node.
	Gone bool
}

// Cache is a cache of the engine's nodes. It is safe for concurrent use.
type Cache struct {
	engine provisioner.Reader
	opts   Options

	// turn is held by the one goroutine that talks to the engine for Refresh.
	turn chan struct{}
	// loading is held by the one goroutine that reads the ports or inventories of many nodes.
	loading chan struct{}
	// wake makes Start poll at once; expected makes it poll soon, before the interval is over.
	wake, expected chan struct{}

	mu         sync.Mutex
	nodes      map[string]provisioner.Node
	moment     uint64            // counts requests and snapshots in their order
	storedAt   map[string]uint64 // the moments at which nodes were stored, by ID
	generation uint64
	ports      map[string]portList
	byMAC      map[string][]string // IDs of the nodes with a port, by MAC address
	unread     map[string]struct{} // IDs of nodes whose ports have to be read
	expiredAt  time.Time           // when ports were last searched for old ones
	bmcs       bmcIndex
	newest     time.Time // newest UpdatedAt in any list
	newestAt   time.Time // when newest was first seen
	caughtUp   bool      // no change as old as newest can be missing any more
	sweptAt    time.Time // end of the last complete list
	polledAt   time.Time // end of the last poll, successful or not
	lastError  error     // of the last poll
	version    string    // the engine's last known version
	listeners  []func([]Change)
	readers    []func([]Change) // listeners that are also told what others read or changed
}

// New returns an empty cache of the nodes of engine.
func New(engine provisioner.Reader, opts Options) *Cache {
	opts.setDefaults()
	return &Cache{
		engine:  engine,
		opts:    opts,
		turn:    make(chan struct{}, 1),
		loading: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1), expected: make(chan struct{}, 1),
		nodes:    map[string]provisioner.Node{},
		storedAt: map[string]uint64{},
		ports:    map[string]portList{},
		byMAC:    map[string][]string{},
		unread:   map[string]struct{}{},
		bmcs:     newBMCIndex(),
	}
}

// Subscribe calls fn with every change from now on. fn must not block for long and must not call
// Refresh.
func (c *Cache) Subscribe(fn func([]Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, fn)
}

// SubscribeToAll is Subscribe for callers that do not act on nodes themselves. fn is also called
// with the changes that others saw with Reread, or made and passed to Note.
func (c *Cache) SubscribeToAll(fn func([]Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners, c.readers = append(c.listeners, fn), append(c.readers, fn)
}

// Start polls the engine until ctx ends. A failed poll does not end it: Refresh returns the error,
// and the next poll follows after the interval.
func (c *Cache) Start(ctx context.Context) error {
	ticker := time.NewTicker(c.opts.Interval)
	defer ticker.Stop()
	age := c.opts.Interval / 2 // a controller may just have polled
	var early <-chan time.Time
	var busyUntil time.Time
	soon := c.opts.Interval / expectedShare
	for {
		if age >= 0 {
			_ = c.Refresh(ctx, age)
		}
		age = c.opts.Interval / 2
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-c.wake:
			age = 0
		case <-early:
			early, age = nil, 0
			if time.Now().Before(busyUntil) {
				early = time.After(soon)
			}
		case <-c.expected:
			busyUntil = time.Now().Add(2 * c.opts.Interval)
			if early == nil {
				early = time.After(soon)
			}
			age = -1
		}
	}
}

// NeedLeaderElection returns false: every replica keeps its cache up to date, so that a new leader
// starts with a full cache.
func (c *Cache) NeedLeaderElection() bool { return false }

// Refresh polls the engine unless the last poll is at most maxAge old, and returns
// the error of the last poll. Concurrent callers share one poll.
func (c *Cache) Refresh(ctx context.Context, maxAge time.Duration) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	age, err := c.opts.Now().Sub(c.polledAt), c.lastError
	fresh := !c.polledAt.IsZero() && age < maxAge
	begun, asked := c.opts.Now(), c.next()
	list, complete := c.nextList()
	c.mu.Unlock()
	if fresh {
		return err
	}
	nodes, err := c.engine.Nodes(ctx, list)
	version := ""
	if err == nil {
		version, _ = c.engine.Version(ctx) // if this fails, the next poll compares versions
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}

	c.mu.Lock()
	c.logOutcome(c.lastError, err)
	recovered := c.lastError != nil && err == nil
	c.polledAt, c.lastError = c.opts.Now(), err
	var changes []Change
	if err == nil {
		c.caughtUp = begun.Sub(c.newestAt) >= overlap
		changes = append(c.merge(nodes, complete, asked), c.upgraded(version)...)
	}
	if recovered {
		changes = append(changes, Change{}) // whoever looked for a node meanwhile got the error of the failed poll
	}
	c.mu.Unlock()
	c.publish(changes)
	return err
}

// logOutcome logs when polls begin to fail and when they succeed again. Users see the failure in
// conditions, too.
func (c *Cache) logOutcome(before, now error) {
	switch {
	case now != nil && before == nil:
		c.opts.Logger.Warn("Engine cannot be read", "err", now)
	case now == nil && before != nil:
		c.opts.Logger.Info("Engine can be read again")
	}
}

// nextList returns the options of the next list and whether it is complete.
func (c *Cache) nextList() (provisioner.ListOptions, bool) {
	due := c.opts.Now().Sub(c.sweptAt) >= c.opts.SweepInterval
	if c.sweptAt.IsZero() || due || c.newest.IsZero() || len(c.nodes) <= c.opts.SweepAlways {
		return provisioner.ListOptions{}, true
	}
	since := c.newest
	if !c.caughtUp {
		since = since.Add(-overlap)
	}
	return provisioner.ListOptions{ChangedSince: since, Limit: c.opts.SweepAlways}, false
}

func (c *Cache) merge(nodes []provisioner.Node, complete bool, asked uint64) []Change {
	var changes []Change
	seen := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		seen[n.ID] = true
		// Only lists move newest, because a list has all changes up to its newest one.
		if n.UpdatedAt.After(c.newest) {
			c.newest, c.newestAt, c.caughtUp = n.UpdatedAt, c.opts.Now(), false
		}
		if change, ok := c.put(n, asked); ok {
			changes = append(changes, change)
		}
	}
	if !complete {
		return changes
	}
	c.sweptAt = c.opts.Now()
	for id, n := range c.nodes {
		if !seen[id] {
			changes = append(changes, c.drop(n))
		}
	}
	return changes
}

// upgraded returns a change for each node if the engine has another version than before. The new
// version may support more of what hosts want of their nodes, and idle hosts would not look.
// version is "" if it is unknown.
func (c *Cache) upgraded(version string) []Change {
	before := c.version
	c.version = cmp.Or(version, before)
	if before == "" || before == c.version {
		return nil
	}
	changes := make([]Change, 0, len(c.nodes))
	for _, n := range c.nodes {
		changes = append(changes, Change{Node: n})
	}
	return changes
}

// next returns the moment of a request or a snapshot. The caller holds mu.
func (c *Cache) next() uint64 {
	c.moment++
	return c.moment
}

// put stores a snapshot and reports whether subscribers must be told. asked is the moment of the
// request for the snapshot.
//
// A snapshot that looks older than the stored one is ignored if it was requested before the stored
// one arrived: it was read earlier and arrived later. A snapshot that was requested afterwards is
// newer, however old it looks: the engine's clock may have been set back, or its database restored.
func (c *Cache) put(n provisioner.Node, asked uint64) (Change, bool) {
	old, known := c.nodes[n.ID]
	if known && n.UpdatedAt.Before(old.UpdatedAt) && asked < c.storedAt[n.ID] {
		return Change{}, false
	}
	c.storedAt[n.ID] = c.next()
	c.nodes[n.ID] = n
	c.bmcs.note(n)
	if !known || !old.InspectedAt.Equal(n.InspectedAt) {
		c.unread[n.ID] = struct{}{}
	}
	changed := !known || differs(old, n, c.opts.AgentWindow)
	if changed {
		c.generation++
	}
	return Change{Node: n}, changed
}

func (c *Cache) drop(n provisioner.Node) Change {
	c.dropPorts(n.ID)
	c.bmcs.drop(n.ID)
	delete(c.nodes, n.ID)
	delete(c.storedAt, n.ID)
	delete(c.unread, n.ID)
	c.generation++
	return Change{Node: n, Gone: true}
}

// differs reports whether the change from a to b can affect a host.
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

func (c *Cache) publish(changes []Change) { c.tell(&c.listeners, changes) }

// tell calls each of the listeners with changes.
func (c *Cache) tell(listeners *[]func([]Change), changes []Change) {
	if len(changes) == 0 {
		return
	}
	c.mu.Lock()
	told := slices.Clone(*listeners)
	c.mu.Unlock()
	for _, fn := range told {
		fn(changes)
	}
}
