package powersync

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// How the list of nodes is kept up to date.
const (
	refreshInterval = 5 * time.Second // for what changed
	// overlap is how far a refresh goes back before the previous one, because commits may come in
	// another order than the times of their changes.
	overlap = 5 * time.Second
	// compareInterval is how often the versions of all nodes are compared. The comparison finds
	// what a refresh misses: deleted nodes, and changes committed later than overlap.
	compareInterval = 10 * time.Minute
	// manyChanged is the number of changed nodes from which on a comparison of all versions
	// replaces the refresh.
	manyChanged = 1000
	// nodesAtOnce is how many nodes are read from the database at once.
	nodesAtOnce = 512
)

// list is what the syncer knows of the nodes in the database.
type list struct {
	seen     map[int64]time.Time // versions (UpdatedAt) of all nodes, by key
	watch    string              // version that Watch returned
	watches  func(*node.Node) bool
	changed  time.Time           // changes from this time on may be new
	key      int64               // no new node can get a key up to this one
	recent   map[int64]time.Time // higher keys of young nodes, with their times of creation
	compared time.Time           // when all versions were last compared; zero asks for a comparison
	failing  bool                // the last refresh failed, and was logged
}

func newList() list { return list{seen: map[int64]time.Time{}, recent: map[int64]time.Time{}} }

// since moves the time from which changes may be new. Now is the beginning of a refresh by the
// database's clock.
func (l *list) since(now time.Time) {
	l.changed = now.Add(-overlap)
	for id, created := range l.recent {
		if created.Before(l.changed) {
			l.key = max(l.key, id)
			delete(l.recent, id)
		}
	}
}

// refreshLoop keeps the list up to date.
func (s *Syncer) refreshLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := s.refresh(ctx)
		if err != nil && ctx.Err() == nil && !s.list.failing {
			s.log.Error("Nodes whose power is synchronized could not be read", "err", err)
		}
		s.list.failing = err != nil
		timer.Reset(min(refreshInterval, s.cfg.Interval))
	}
}

// refresh reads the nodes that changed since the last refresh.
func (s *Syncer) refresh(ctx context.Context) error {
	l := &s.list
	var nodes []*node.Node
	var now time.Time
	err := s.db.Read(ctx, func(tx *store.Tx) (err error) {
		now = tx.Now()
		if err := s.readSuspension(tx); err != nil {
			return err
		}
		var watch string
		if l.watches, watch, err = s.owner.Watch(tx); err != nil {
			return err
		}
		if watch != l.watch || time.Since(l.compared) >= compareInterval {
			if watch != l.watch {
				clear(l.seen) // an unchanged node may be ours now
				l.watch = watch
			}
			l.compared = time.Time{}
			return nil
		}
		var enough bool
		if nodes, enough, err = tx.PowerNodesSince(l.changed, l.key, manyChanged); !enough {
			l.compared = time.Time{}
		}
		return err
	})
	if err != nil {
		return err
	}
	if l.compared.IsZero() {
		return s.compareAll(ctx)
	}
	s.learn(nodes)
	l.since(now)
	return nil
}

// compareAll compares the versions of all nodes and reads those that changed.
func (s *Syncer) compareAll(ctx context.Context) error {
	l := &s.list
	var versions []store.NodeVersion
	var now time.Time
	err := s.db.Read(ctx, func(tx *store.Tx) (err error) {
		now = tx.Now()
		versions, err = tx.NodeVersions()
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(versions, func(a, b store.NodeVersion) int { return cmp.Compare(a.ID, b.ID) })
	exists := make(map[int64]bool, len(versions))
	var changed []int64
	for _, v := range versions {
		exists[v.ID] = true
		if seen, ok := l.seen[v.ID]; !ok || !seen.Equal(v.Updated) {
			changed = append(changed, v.ID)
		}
	}
	for id := range l.seen {
		if !exists[id] {
			s.forget(id)
			delete(l.seen, id)
		}
	}
	for ids := range slices.Chunk(changed, nodesAtOnce) {
		var nodes []*node.Node
		err := s.db.Read(ctx, func(tx *store.Tx) (err error) {
			nodes, err = tx.PowerNodes(ids)
			return err
		})
		if err != nil {
			return err
		}
		s.learn(nodes)
	}
	l.since(now)
	l.compared = time.Now()
	return nil
}

// learn updates the list and the schedule with nodes as read from the database.
func (s *Syncer) learn(nodes []*node.Node) {
	l := &s.list
	for _, n := range nodes {
		l.seen[n.ID] = n.UpdatedAt
		if n.ID > l.key {
			l.recent[n.ID] = n.CreatedAt
		}
		if l.watches(n) {
			s.put(n)
		} else {
			s.forget(n.ID)
		}
	}
}

// forget removes a node from the schedule.
func (s *Syncer) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.nodes[id]; ok {
		s.dequeue(e)
		delete(s.nodes, id)
	}
}

// put adds or updates a node that this process watches, as read from the database.
func (s *Syncer) put(n *node.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	e, ok := s.nodes[n.ID]
	if !ok {
		e = &entry{id: n.ID, uuid: n.UUID, n: n}
		e.due = now.Add(firstDue(s.cfg.Interval, e.spread()))
		s.nodes[n.ID] = e
		s.enqueue(e)
		return
	}
	s.update(e, n, now)
}

// update replaces the node of an entry and changes its schedule accordingly.
func (s *Syncer) update(e *entry, n *node.Node, now time.Time) {
	before, dormant := e.n, e.lane == nil && !e.busy
	s.dequeue(e)
	e.n = n
	soon := now.Add(firstDue(s.cfg.Interval, e.spread()))
	switch {
	case !sameMachine(before, n): // somebody may have corrected the access data
		e.failures, e.restores = 0, 0
		if soon.Before(e.due) {
			e.due = soon
		}
	case n.Fault == node.FaultPowerFailure && before.Fault != n.Fault:
		e.failures, e.restores = 0, 0
		e.due = now.Add(nextDue(s.cfg.Recovery, false, e.spread()))
	case before.Fault == node.FaultPowerFailure && before.Fault != n.Fault, dormant && e.due.Before(now):
		e.due = soon
	}
	if !e.busy {
		s.enqueue(e)
	}
}
