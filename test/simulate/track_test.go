package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// requestedWork is the row of work that a request has led to.
type requestedWork struct {
	row       int64  // 0 when no work was stored
	key       string // prefix of the requests that are made for the row, see driver.Origin
	ended     bool
	succeeded bool            // it has ended without an error
	earlier   map[string]bool // the events of the node from before, by UUID
}

// keyOf returns the prefix of the requests that are made for a row.
func keyOf(work *store.Work) string {
	return fmt.Sprintf("%d-%d ", work.CreatedAt.UnixMicro(), work.ID)
}

// leadsTo reports whether the work of a request is of a kind.
func (q *request) leadsTo(kind store.WorkKind) bool {
	switch {
	case q.setting != nil:
		return kind == q.setting.kind
	case q.inventory != "":
		return kind == processWork
	}
	return !slices.Contains(kindsBesideState, kind)
}

// isTracked reports whether the work of a request is tracked.
func (q *request) isTracked() bool { return q.setting != nil || q.inventory != "" || q.startsWork() }

// trackWork finds out what a commit has changed in the work of requests.
func (w *world) trackWork(info runner.Info) {
	w.mu.Lock()
	all := slices.Clone(w.requests)
	w.mu.Unlock()
	committer := requestOf(info, all)
	requests := slices.DeleteFunc(all, func(q *request) bool { return !q.isTracked() })
	open := slices.DeleteFunc(slices.Clone(requests), func(q *request) bool { return q.work.row == 0 || q.work.ended })
	if committer == nil && len(open) == 0 {
		return
	}
	_ = w.db.Read(context.Background(), func(tx *store.Tx) error {
		if committer != nil {
			committer.committed = true
		}
		if committer != nil && committer.isTracked() {
			if err := committer.findRow(tx, open); err != nil {
				return err
			}
		}
		if committer != nil && committer.startsWork() {
			if err := w.checkStart(tx, committer); err != nil {
				return err
			}
		}
		for _, q := range open {
			if err := w.trackRow(tx, q, committer, requests); err != nil {
				return err
			}
		}
		return nil
	})
}

// requestOf returns the request to which a commit belongs, or nil if that is not one of some.
func requestOf(info runner.Info, some []*request) *request {
	i := slices.IndexFunc(some, func(q *request) bool { return info.Task == q.task() })
	if i < 0 {
		return nil
	}
	return some[i]
}

// findRow finds the work that a commit of a request has stored: the one that belongs to none of the
// others.
func (q *request) findRow(tx *store.Tx, others []*request) error {
	n, err := tx.Node(q.node)
	if err != nil {
		return err
	}
	works, err := tx.WorkOf(n.ID)
	if err != nil {
		return err
	}
	for _, work := range works {
		if q.leadsTo(work.Kind) && writtenNow(tx, work.CreatedAt) && !slices.ContainsFunc(others, func(o *request) bool { return o.work.row == work.ID }) {
			q.work.row, q.work.key = work.ID, keyOf(work)
		}
	}
	events, err := tx.Events(n.ID)
	q.work.earlier = make(map[string]bool, len(events))
	for _, e := range events {
		q.work.earlier[e.UUID] = true
	}
	return err
}

// writtenNow reports whether the commit that was made just now may have written a row.
func writtenNow(tx *store.Tx, at time.Time) bool {
	return !at.Before(tx.Now().Truncate(time.Microsecond))
}

// trackRow finds out whether the commit has ended the work of q, and how. committer is the request
// that made the commit, or nil; requests are all whose work is tracked.
func (w *world) trackRow(tx *store.Tx, q, committer *request, requests []*request) error {
	n, err := tx.Node(q.node)
	if err != nil {
		q.work.ended = true // with its node
		return nil          //nolint:nilerr // the node was deleted
	}
	works, err := tx.WorkOf(n.ID)
	if err != nil || slices.ContainsFunc(works, func(work *store.Work) bool { return work.ID == q.work.row }) {
		return err
	}
	q.work.ended = true
	if q.startsWork() {
		return w.checkVerbEnd(tx, n, q, committer)
	}
	events, err := tx.Events(n.ID)
	if err != nil {
		return err
	}
	// Another work of the kind may have failed at the same time. Each failure belongs to one work.
	failure := slices.IndexFunc(events, func(e *node.Event) bool {
		return e.Severity == node.SeverityError && q.leadsTo(store.WorkKind(e.Type)) && e.Message != "" && writtenNow(tx, e.CreatedAt) && !w.attributed[e.UUID] && !q.work.earlier[e.UUID]
	})
	if failure >= 0 {
		w.attributed[events[failure].UUID] = true
		if n.LastError == "" {
			w.violated("%s: request %d (%s) has failed, and last_error does not say so", n.Name, q.id, q.name)
		}
		return nil
	}
	q.work.succeeded = true
	if q.setting != nil {
		w.checkSetting(n, q, requests)
		return nil
	}
	return w.checkInventory(tx, n, q)
}

// checkTracked checks that every request that was accepted and leads to work has become work, and
// that this work has ended.
func (w *world) checkTracked(uuid string) {
	for _, q := range w.requests {
		switch {
		case q.node != uuid || !q.accepted:
		case q.isVerb() && !q.committed:
			w.violated("%s: request %d (%s) was accepted, and nothing was stored", w.machines[uuid].name, q.id, q.name)
		case !q.isTracked() || q.startsWork() && q.work.row == 0: // it has ended with its commit, see checkStart
		case q.work.row == 0:
			w.violated("%s: request %d (%s) was accepted, and no work was stored", w.machines[uuid].name, q.id, q.name)
		case !q.work.ended:
			w.violated("%s: request %d (%s) was accepted and never ends", w.machines[uuid].name, q.id, q.name)
		}
	}
}
