package powersync

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// serve reads the nodes of a lane when they are due.
func (s *Syncer) serve(ctx context.Context, l *lane) {
	var readings sync.WaitGroup
	defer readings.Wait()
	for {
		due := s.await(ctx, l)
		if ctx.Err() != nil {
			return
		}
		free, err := s.examine(ctx, l, due)
		if err != nil && ctx.Err() == nil {
			s.log.Debug("Nodes whose power is due could not be looked up", "err", err)
		}
		for _, e := range due {
			n, ok := free[e.id]
			if !ok {
				l.places.Release(1)
				continue
			}
			readings.Go(func() {
				defer l.places.Release(1)
				ctx := runner.WithInfo(ctx, &runner.Info{Task: l.task, Node: n.UUID})
				s.syncNode(ctx, l, e, n)
			})
		}
	}
}

// errBusy says that the BMC was not called, because it was busy with other calls for too long or too
// many other readings wait for it.
var errBusy = errors.New("the BMC is busy with other calls")

// switchable reports whether the machine can be switched on and off. The power of other machines
// cannot be synchronized.
func (s *Syncer) switchable(n *node.Node) bool {
	power, err := s.machines.Power(n)
	if err != nil { // not built, or not chosen: the verification of the node reports it
		return false
	}
	supported := power.Supported()
	return slices.Contains(supported, node.PowerOn) && slices.Contains(supported, node.PowerOff)
}

// examine returns those of the due nodes that are to be read now, as the database has them, and
// reschedules the others.
func (s *Syncer) examine(ctx context.Context, l *lane, due []*entry) (map[int64]*node.Node, error) {
	ids, known := make([]int64, len(due)), map[int64]time.Time{}
	s.mu.Lock()
	for i, e := range due {
		ids[i], known[e.id] = e.id, e.n.UpdatedAt
	}
	s.mu.Unlock()
	var versions map[int64]store.NodeVersion
	fresh := map[int64]*node.Node{}
	err := s.db.Read(ctx, func(tx *store.Tx) (err error) {
		if versions, err = tx.PowerVersions(ids); err != nil {
			return err
		}
		changed := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool {
			v, ok := versions[id]
			return !ok || v.Updated.Equal(known[id])
		})
		nodes, err := tx.PowerNodes(changed)
		for _, n := range nodes {
			fresh[n.ID] = n
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	now, free := time.Now(), map[int64]*node.Node{}
	for _, e := range due {
		id := e.id
		v, exists := versions[id]
		if n, ok := fresh[id]; ok {
			s.update(e, n, now)
		}
		switch {
		case s.nodes[id] != e:
		case err != nil:
			s.reschedule(e, now.Add(refreshInterval-part(refreshInterval/8, e.spread())))
		case !exists:
			delete(s.nodes, id)
		case v.Held:
			s.reschedule(e, now.Add(nextDue(s.intervalOf(l), false, e.spread())))
		case s.laneOf(e) != l: // the node changed, and belongs to another lane or none
			s.reschedule(e, e.due)
		default:
			free[id] = e.n
		}
	}
	return free, err
}

// intervalOf returns how often the nodes of a lane are read.
func (s *Syncer) intervalOf(l *lane) time.Duration {
	if l == s.lanes[powerFailure] {
		return s.cfg.Recovery
	}
	return s.cfg.Interval
}

// reschedule ends the handling that take began, whether or not the machine was read.
func (s *Syncer) reschedule(e *entry, due time.Time) {
	e.busy = false
	e.due = due
	e.round++
	s.enqueue(e)
}

// syncNode reads one machine, acts on the result, and schedules the next reading.
func (s *Syncer) syncNode(ctx context.Context, l *lane, e *entry, n *node.Node) {
	observed, err := s.ask(ctx, n)
	if ctx.Err() != nil {
		return
	}
	follow := s.apply
	if l == s.lanes[powerFailure] {
		follow = s.recoverNode
	}
	due, err := follow(ctx, e, n, observed, err)
	if err != nil && ctx.Err() == nil && !errors.Is(err, node.ErrLocked) && !errors.Is(err, node.ErrNotFound) {
		s.log.Warn("Power state could not be synchronized", "node", n.UUID, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[n.ID] != e {
		return
	}
	if !sameMachine(n, e.n) { // somebody may have corrected the access data while it was read
		e.failures, e.restores = 0, 0
		due = min(due, firstDue(s.cfg.Interval, e.spread()))
	}
	s.reschedule(e, time.Now().Add(due))
}

// ask reads the power state of a machine. The error is errBusy when the BMC was not called. A panic
// becomes an ordinary error: one malformed answer must not end the process.
func (s *Syncer) ask(ctx context.Context, n *node.Node) (state node.PowerState, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.log.Error("Reading a power state panicked", "node", n.UUID, "panic", panicked, "stack", string(debug.Stack()))
			state, err = "", fmt.Errorf("internal error in the driver: %v", panicked)
		}
	}()
	power, err := s.machines.Power(n)
	if err != nil {
		return "", err
	}
	bmc := s.machines.BMC(n)
	if !s.beginReading(bmc) {
		return "", errBusy
	}
	defer s.endReading(bmc)
	waiting, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	leave, err := s.gate.Enter(waiting, bmc)
	if err != nil {
		return "", errBusy
	}
	defer leave()
	bounded, end := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer end()
	if state, err = power.PowerState(bounded, n); err != nil || state == n.PowerState {
		return state, err
	}
	return state, s.owner.CheckBMCIsOwn(bounded, n) // the state of another node's machine says nothing
}

// beginReading counts a reading at a BMC, unless as many wait there as are made. This keeps a BMC that
// hangs, with many nodes behind it, from taking all places of a lane.
func (s *Syncer) beginReading(bmc string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readings[bmc] >= 2*s.cfg.CallsPerBMC {
		return false
	}
	s.readings[bmc]++
	return true
}

func (s *Syncer) endReading(bmc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readings[bmc]--; s.readings[bmc] == 0 {
		delete(s.readings, bmc)
	}
}

// setRestores sets how often the power state of a node was restored in a row.
func (s *Syncer) setRestores(e *entry, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.restores = times
}

// restoresOf returns how often the power state of a node was restored in a row.
func (s *Syncer) restoresOf(e *entry) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.restores
}

// count records the result of a reading. It returns how many readings failed in a row, and whether
// this one was the first of the node.
func (s *Syncer) count(e *entry, failed bool) (failures int, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = e.round == 0
	if failed {
		e.failures++
	} else {
		e.failures, e.readAt = 0, time.Now()
	}
	return e.failures, first
}
