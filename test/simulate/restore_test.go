package simulate

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// restoreEvery says that one in this many runs restores an older copy of the database.
const restoreEvery = 8

// restoration is how a run puts an older copy of the database in place.
type restoration struct {
	dir string // data folder
	// copyAt and putAt are the steps at which the copy is taken and restored. From step resumeAt
	// on, clients let suspended work go on. All are zero in runs without a restoration.
	copyAt, putAt, resumeAt int
	copied, put             time.Time // when that was done; zero before
}

// planRestoration draws whether and when a run restores its database.
func (w *world) planRestoration(dir string) {
	w.restored = restoration{dir: dir}
	drawn := func(what string, most uint32) int { return int(w.drawn("restore", what) % most) }
	if drawn("whether", restoreEvery) == 0 {
		r := &w.restored
		r.copyAt = 20 + drawn("copy", 120)
		r.putAt = r.copyAt + 1 + drawn("put", 80)
		r.resumeAt = r.putAt + 20 + drawn("resume", 60)
	}
}

// restoreOrResume does what is due for a restoration. No transaction runs meanwhile.
func (w *world) restoreOrResume() {
	r := &w.restored
	w.count++
	switch {
	case r.copyAt == 0:
	case w.count == r.copyAt:
		w.backUp()
	case w.count == r.putAt:
		w.putBack()
	case w.count > r.resumeAt && w.sched.chance(10):
		w.resumeSome()
	}
}

func (w *world) backup() string { return filepath.Join(w.restored.dir, "backup") }

// backUp takes a copy of the database.
func (w *world) backUp() {
	_, err := store.Backup(context.Background(), w.restored.dir, w.backup(), false)
	w.must(err)
	w.restored.copied = time.Now()
	w.sched.note("somebody backs up the database")
}

// putBack stops everything, restores the copy, and starts again.
func (w *world) putBack() {
	w.sched.note("somebody restores the database")
	w.sched.fail()
	for _, r := range w.processes() {
		w.mistrust(r)
		r.die()
		w.sched.releaseAll(r)
	}
	// When that person is done, no call is on its way any more.
	time.Sleep(time.Minute + 17*time.Nanosecond) //nolint:forbidigo // time of a bubble, which passes by itself
	w.sched.waiting()
	w.must(w.db.Close())
	_, err := store.Restore(context.Background(), w.backup(), w.restored.dir, time.Now())
	w.must(err)
	w.db, err = store.Open(context.Background(), store.Options{Dir: w.restored.dir})
	w.must(err)
	w.restored.put = time.Now()
	w.forget()
	w.replace()
	synctest.Wait()
}

// forget makes the world forget the answers and commits that are lost.
func (w *world) forget() {
	copied, rows := w.restored.copied, map[string]bool{}
	for _, uuid := range w.nodes {
		if n, err := w.node(uuid); err == nil {
			for _, work := range w.works(n) {
				rows[keyOf(work)] = true
			}
		}
	}
	w.mu.Lock()
	for _, q := range w.requests {
		if !q.answered || !q.until.Before(copied) {
			q.lost, q.unsure, q.accepted = true, q.accepted || q.unsure || !q.answered, false
			q.work = requestedWork{ended: true}
		}
		q.work.ended = !rows[q.work.key]
		q.work.done = q.work.done && q.work.ended
	}
	w.mu.Unlock()
	for _, c := range w.computers {
		c.dropDoubts()
	}
	for _, m := range w.machines {
		m.mistrust()
		m.mu.Lock()
		m.lease = node.Lease{}
		m.idle = slices.DeleteFunc(m.idle, func(at time.Time) bool { return !at.Before(copied) })
		for asked, d := range m.doubts {
			d.lost = true
			m.doubts[asked] = d
		}
		clear(m.verified)
		m.mu.Unlock()
	}
}

// forgotten reports whether an effect on a machine at a time is in no database any more, and the
// machine cannot tell of it either. Whoever lets the work go on then repeats the effect. A fake
// machine can tell of all requests, an agent only of its last command, and a BMC only of updates
// that have not ended.
func (w *world) forgotten(m *machine, at time.Time) bool {
	r := w.restored
	return w.computerOf(m.uuid) != nil && !r.put.IsZero() && !at.Before(r.copied) && at.Before(r.put)
}

// suspended reports whether work waits for a person.
func (w *world) suspended() (suspended bool) {
	_ = w.db.Read(context.Background(), func(tx *store.Tx) error {
		s, err := tx.Suspension()
		suspended = s.InForce()
		return err
	})
	return suspended
}

// resumeSome lets a person decide about suspended work, of one node or of all.
func (w *world) resumeSome() {
	r := w.alive()
	if r == nil || !w.suspended() {
		return
	}
	uuid := pick(w.sched, w.nodes)
	switch w.sched.rng.IntN(4) {
	case 0:
		w.resumeAll(r)
	case 1:
		w.send(r, uuid, "drop", nil, func(ctx context.Context) error { return r.DropSuspended(ctx, uuid, "") })
	default:
		w.send(r, uuid, resumeNode, nil, func(ctx context.Context) error { return r.ResumeNode(ctx, uuid, "") })
	}
}

// The requests that let suspended work go on: that of a node, or all of it.
const resumeNode, resumeAll = "resume", "resume all"

func (w *world) resumeAll(r *replica) {
	w.send(r, w.nodes[0], resumeAll, nil, func(ctx context.Context) error { return r.Resume(ctx, "") })
}

// withoutEffect are requests after which nothing has to be done to a machine.
var withoutEffect = []string{"heartbeat", "drop", "delete", "maintenance off", otherBMC, postedDocument}

// suspensionProblem returns why an effect must not begin after a restoration, or "" if it may. Old
// work waits until somebody lets it go on, and new work until somebody asks for it.
func (w *world) suspensionProblem(uuid, asked string) string {
	put := w.restored.put
	if put.IsZero() || asked == "" {
		return ""
	}
	nodes := []string{uuid}
	if w.hasChild() && uuid != w.nodes[2] { // the work of each of the two may reach the other
		nodes = w.nodes[:2]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	resumed := slices.ContainsFunc(w.requests, func(q *request) bool {
		return (q.what == resumeAll || q.what == resumeNode && slices.Contains(nodes, q.node)) && (!q.answered || q.counts())
	})
	if resumed {
		return ""
	}
	micros, _, _ := strings.Cut(asked, "-")
	created, err := strconv.ParseInt(micros, 10, 64)
	if err == nil && time.UnixMicro(created).Before(put.Truncate(time.Microsecond)) { // rows have whole microseconds
		return "although its work is from before the restoration, and nobody has let it go on"
	}
	wanted := slices.ContainsFunc(w.requests, func(q *request) bool {
		return slices.Contains(nodes, q.node) && !q.at.Before(put) && !slices.Contains(withoutEffect, q.what) && !strings.HasPrefix(q.what, "patch ")
	})
	if !wanted && w.suspended() {
		return "although everything is suspended, and nobody has asked for it"
	}
	return ""
}

// endSuspension ends a suspension that is left.
func (w *world) endSuspension() {
	if r := w.alive(); r != nil && w.suspended() {
		w.resumeAll(r)
	}
}
