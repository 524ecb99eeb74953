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

// restoreEvery says that one in this many runs restores a backup of the database.
const restoreEvery = 8

// restoration is how a run restores a backup of the database.
type restoration struct {
	dataDir string // data folder
	// backupStep and restoreStep are the steps at which the backup is taken and restored. From
	// resumeStep on, clients resume suspended work. All are zero in runs without a restoration.
	backupStep, restoreStep, resumeStep int
	backedUpAt, restoredAt              time.Time // when that was done; zero before
}

// planRestoration draws whether and when a run restores its database.
func (w *world) planRestoration(dir string) {
	w.restoration = restoration{dataDir: dir}
	drawn := func(purpose string, most uint32) int { return int(w.drawn("restore", purpose) % most) }
	if drawn("whether", restoreEvery) == 0 {
		r := &w.restoration
		r.backupStep = 20 + drawn("copy", 120)
		r.restoreStep = r.backupStep + 1 + drawn("put", 80)
		r.resumeStep = r.restoreStep + 20 + drawn("resume", 60)
	}
}

// restoreOrResume does what is due for a restoration. No transaction runs meanwhile.
func (w *world) restoreOrResume() {
	r := &w.restoration
	w.stepCount++
	switch {
	case r.backupStep == 0:
	case w.stepCount == r.backupStep:
		w.takeBackup()
	case w.stepCount == r.restoreStep:
		w.restoreBackup()
	case w.stepCount > r.resumeStep && w.sched.chance(10):
		w.requestResume()
	}
}

func (w *world) backupDir() string { return filepath.Join(w.restoration.dataDir, "backup") }

// takeBackup takes a backup of the database.
func (w *world) takeBackup() {
	_, err := store.Backup(context.Background(), w.restoration.dataDir, w.backupDir(), false)
	w.must(err)
	w.restoration.backedUpAt = time.Now()
	w.sched.note("somebody backs up the database")
}

// restoreBackup stops everything, restores the backup, and starts again.
func (w *world) restoreBackup() {
	w.sched.note("somebody restores the database")
	w.sched.noteFailure()
	for _, r := range w.allReplicas() {
		w.noteUnknownCalls(r)
		r.die()
		w.sched.releaseAll(r)
	}
	// The manual asks for a start only when no call is on its way any more: the restored database may know of none.
	time.Sleep(max(time.Minute, time.Until(w.callsEnd())) + 17*time.Nanosecond) //nolint:forbidigo // time of a bubble, which passes by itself
	w.sched.waiting()
	w.must(w.db.Close())
	_, err := store.Restore(context.Background(), w.backupDir(), w.restoration.dataDir, time.Now())
	w.must(err)
	w.db, err = store.Open(context.Background(), store.Options{Dir: w.restoration.dataDir})
	w.must(err)
	w.restoration.restoredAt = time.Now()
	w.dropLost()
	w.restartReplicas()
	synctest.Wait()
}

// callsEnd returns when the last call that may be on its way ends; the zero time when there is none.
func (w *world) callsEnd() (last time.Time) {
	for _, m := range w.machines {
		m.mu.Lock()
		for c := range m.calls {
			if c.deadline.After(last) {
				last = c.deadline
			}
		}
		m.mu.Unlock()
	}
	return last
}

// dropLost drops the answers and commits that the restoration has lost.
func (w *world) dropLost() {
	backedUpAt, rows := w.restoration.backedUpAt, map[string]bool{}
	for _, uuid := range w.nodes {
		if n, err := w.node(uuid); err == nil {
			for _, work := range w.works(n) {
				rows[keyOf(work)] = true
			}
		}
	}
	w.mu.Lock()
	for _, q := range w.requests {
		if !q.answered || !q.answeredAt.Before(backedUpAt) {
			q.lost, q.answerUnknown, q.accepted = true, q.accepted || q.answerUnknown || !q.answered, false
			q.work = requestedWork{ended: true}
		}
		q.work.ended = !rows[q.work.key]
		q.work.succeeded = q.work.succeeded && q.work.ended
	}
	w.mu.Unlock()
	for _, c := range w.computers {
		c.dropUnknownEffects()
	}
	for _, m := range w.machines {
		m.noteUnknown()
		m.mu.Lock()
		m.lease = node.Lease{}
		m.powerIdle = slices.DeleteFunc(m.powerIdle, func(at time.Time) bool { return !at.Before(backedUpAt) })
		for request, d := range m.unknownTasks {
			d.lost = true
			m.unknownTasks[request] = d
		}
		clear(m.verifyProgress)
		m.mu.Unlock()
	}
}

// lostByRestore reports whether the restoration has lost the record of an effect on a machine at a
// time, and the machine does not report the effect either. Work that is resumed then repeats the
// effect. A fake machine reports all requests, an agent only its last command, and a BMC only
// updates that have not ended.
func (w *world) lostByRestore(m *machine, at time.Time) bool {
	r := w.restoration
	return w.computerOf(m.uuid) != nil && !r.restoredAt.IsZero() && !at.Before(r.backedUpAt) && at.Before(r.restoredAt)
}

// suspended reports whether work waits until a client resumes it.
func (w *world) suspended() (suspended bool) {
	_ = w.db.Read(context.Background(), func(tx *store.Tx) error {
		s, err := tx.Suspension()
		suspended = s.InForce()
		return err
	})
	return suspended
}

// requestResume has a client decide about suspended work, of one node or of all.
func (w *world) requestResume() {
	r := w.drawReplica()
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

// The requests that resume suspended work: that of a node, or all of it.
const resumeNode, resumeAll = "resume", "resume all"

func (w *world) resumeAll(r *replica) {
	w.send(r, w.nodes[0], resumeAll, nil, func(ctx context.Context) error { return r.Resume(ctx, "") })
}

// withoutEffect are requests after which nothing has to be done to a machine.
var withoutEffect = []string{"heartbeat", "drop", "delete", "maintenance off", otherBMC, postedDocument}

// suspensionProblem returns why an effect must not begin after a restoration, or "" if it may. Old
// work waits until a client resumes it, and new work until a client requests it.
func (w *world) suspensionProblem(uuid, originRequest string) string {
	restoredAt := w.restoration.restoredAt
	if restoredAt.IsZero() || originRequest == "" {
		return ""
	}
	nodes := []string{uuid}
	if w.hasChild() && uuid != w.nodes[2] { // the work of each of the two may reach the other
		nodes = w.nodes[:2]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	resumed := slices.ContainsFunc(w.requests, func(q *request) bool {
		return (q.name == resumeAll || q.name == resumeNode && slices.Contains(nodes, q.node)) && (!q.answered || q.mayBeAccepted())
	})
	if resumed {
		return ""
	}
	micros, _, _ := strings.Cut(originRequest, "-")
	created, err := strconv.ParseInt(micros, 10, 64)
	if err == nil && time.UnixMicro(created).Before(restoredAt.Truncate(time.Microsecond)) { // rows have whole microseconds
		return "although its work is from before the restoration, and nobody has let it go on"
	}
	wanted := slices.ContainsFunc(w.requests, func(q *request) bool {
		return slices.Contains(nodes, q.node) && !q.sentAt.Before(restoredAt) && !slices.Contains(withoutEffect, q.name) && !strings.HasPrefix(q.name, "patch ")
	})
	if !wanted && w.suspended() {
		return "although everything is suspended, and nobody has asked for it"
	}
	return ""
}

// endSuspension ends a suspension that is left.
func (w *world) endSuspension() {
	if r := w.drawReplica(); r != nil && w.suspended() {
		w.resumeAll(r)
	}
}
