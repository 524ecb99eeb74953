//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// How many clients there are.
const (
	owners       = 16 // each with a node of its own
	otherClients = 3
)

// TestWhatMustHoldHoldsWithRealProcesses lets clients make requests to engines while processes, the
// database and machines fail. It reads from the machines what was done.
func TestWhatMustHoldHoldsWithRealProcesses(t *testing.T) {
	seed := *seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	length := time.Duration(*seconds) * time.Second
	fmt.Printf("seed %d, %s\n", seed, length)
	ctx, cancel := context.WithTimeout(context.Background(), length+4*restWithin)
	defer cancel()
	w := newWorld(t, ctx, seed)
	w.run(length)
	w.check()
	w.print()
	w.report()
}

// run lets everything happen at the same time, for this long, and then lets all come to rest.
func (w *world) run(length time.Duration) {
	lasts, end := context.WithTimeout(w.ctx, length)
	defer end()
	var faults, clients sync.WaitGroup
	for i, e := range w.engines {
		faults.Go(func() { e.injectFaults(lasts, w.random(100+i)) })
	}
	faults.Go(func() { w.injectDatabaseFaults(lasts, w.random(200)) })
	faults.Go(func() { w.injectMachineFaults(lasts, w.random(201)) })
	asking, stop := context.WithCancel(w.ctx)
	defer stop()
	for i := range owners {
		clients.Go(func() { w.own(asking, w.random(300+i), fmt.Sprintf("node-%d", i)) })
	}
	for i := range otherClients {
		clients.Go(func() { w.sendOthers(asking, w.random(400+i), fmt.Sprintf("other-%d", i)) })
	}
	faults.Wait()
	w.endFaults()
	w.note("", "every fault is over")
	stop()
	clients.Wait()
	w.count("seconds until everything rested: " + fmt.Sprint(int(time.Since(w.began.Add(length)).Seconds())))
}

// check looks for what does not hold at the end.
func (w *world) check() {
	if w.ctx.Err() != nil {
		w.violated("", "the run took too long")
		return
	}
	for _, e := range w.engines {
		if e.process.Ended() {
			w.violated("", "%s ended by itself", e.name)
		}
		for _, word := range []string{"panic", "DATA RACE"} {
			for _, line := range e.logLines(word) {
				w.violated("", "%s: %s", e.name, line)
			}
		}
	}
	if err := w.inDatabase(w.checkTables); err != nil {
		w.violated("", "read the tables: %v", err)
	}
	r := w.random(1)
	for _, s := range w.subjects {
		w.checkSubject(s, w.node(w.ctx, r, s))
	}
	e := w.evidence()
	for node, broken := range e.violations() {
		for _, text := range broken {
			w.violated(node, "%s", text)
		}
	}
	for _, s := range w.subjects {
		for _, episode := range s.episodes {
			if problem := episode.problem(e.calls); problem != "" {
				w.violated(s.name, "%s", problem)
			}
		}
	}
	w.countCalls(e)
}

// checkTables waits until nothing is left to be done.
func (w *world) checkTables(db *pgx.Conn) error {
	const left = `SELECT 'work ' || kind || ' of ' || nodes.name || ', step ' || coalesce(step, '') FROM work JOIN nodes ON nodes.id = work.node_id
		UNION ALL SELECT 'lease of ' || leases.owner || ' of ' || nodes.name FROM leases JOIN nodes ON nodes.id = leases.node_id
		WHERE expires_at > extract(epoch FROM clock_timestamp()) * 1000000`
	var found []string
	for until := time.Now().Add(restWithin); time.Now().Before(until); pass(w.ctx, 200*time.Millisecond) {
		rows, err := db.Query(w.ctx, left)
		if err != nil {
			return err
		}
		if found, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(found) == 0 {
			return err
		}
	}
	w.violated("", "this is left in the tables: %q", found)
	return nil
}

// checkSubject compares a node with the answers that clients got about it. A nil node does not
// exist.
func (w *world) checkSubject(s *subject, n *shown) {
	deleted := len(s.asked(called("delete"), accepted)) > 0
	switch {
	case n == nil && !deleted && len(s.asked(called("delete"), unknown)) == 0:
		w.violated(s.name, "is gone, and nobody deleted it")
	case n != nil && deleted:
		w.violated(s.name, "was deleted and is there: %s", inJSON(n))
	}
	if n == nil {
		return
	}
	for _, q := range s.asked(func(q *request) bool { return strings.HasPrefix(q.what, "patch ") }, accepted) {
		if !n.Extra[strings.TrimPrefix(q.what, "patch ")] {
			w.violated(s.name, "%s was answered and is lost", q.what)
		}
	}
	if !n.rests() {
		w.violated(s.name, "does not rest: %s", inJSON(n))
	}
}

// evidence reads what the machines and the database have recorded.
func (w *world) evidence() (e evidence) {
	var log struct {
		Effects []effect.Effect `json:"effects"`
		Gap     bool            `json:"gap"`
	}
	if err := w.machines.read("/calls", &log); err != nil || log.Gap {
		w.violated("", "the log of the machines is not whole: gap %v, %v", log.Gap, err)
	}
	e.calls = log.Effects
	err := w.inDatabase(func(db *pgx.Conn) (err error) {
		e.leases, err = recordedLeases(w.ctx, db)
		return err
	})
	if err != nil {
		w.violated("", "the record of the leases cannot be read: %v", err)
	}
	return e
}

// countCalls counts what the evidence covers.
func (w *world) countCalls(e evidence) {
	w.counts["leases granted"] = len(e.leases)
	type object struct{ kind, name string }
	by := map[object]map[string]bool{} // engines by what they worked on
	worked := func(kind, name, engine string) {
		if by[object{kind, name}] == nil {
			by[object{kind, name}] = map[string]bool{}
		}
		by[object{kind, name}][engine] = true
	}
	for _, call := range e.calls {
		what := call.Fault
		if what == "" {
			what = "well"
		}
		w.counts["call: "+call.Kind+": "+what]++
		work, _, _ := strings.Cut(call.Request, " ")
		worked("operations", call.Machine+call.Request, call.Conductor)
		worked("work", call.Machine+work, call.Conductor)
	}
	for what, engines := range by {
		w.counts[fmt.Sprintf("%s with calls of %d engines", what.kind, len(engines))]++
	}
	for _, s := range w.subjects {
		for _, episode := range s.episodes {
			if slices.ContainsFunc(episode.errors, func(text string) bool { return strings.Contains(text, "outcome unknown") }) {
				w.counts["verbs that failed with outcome unknown"]++
			}
		}
	}
	w.counts["nodes"] = len(w.subjects)
}

// print prints what was counted.
func (w *world) print() {
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Printf("%-60s %6d\n", what, w.counts[what])
	}
}

// report fails the test for everything that does not hold, and prints all that is known about it.
func (w *world) report() {
	w.t.Helper()
	for name, broken := range w.broken {
		w.t.Errorf("%s: %s\n\n%s", name, strings.Join(broken, "\n"), w.story(name))
	}
	if len(w.broken) > 0 {
		w.t.Logf("the choices of clients and faults come from seed %d", w.seed)
	}
}

// story is what happened to a node: notes, the calls of its machine and the engines'
// logs. The empty name means the world.
func (w *world) story(name string) string {
	var text strings.Builder
	for _, n := range w.notes {
		if n.node == name || n.node == "" {
			fmt.Fprintf(&text, "%s %s\n", n.at.Format(clockTime), n.text)
		}
	}
	if name == "" {
		return text.String()
	}
	var log struct {
		Effects []effect.Effect `json:"effects"`
	}
	_ = w.machines.read("/calls", &log) // it was read before
	fmt.Fprintf(&text, "\ncalls of the machine:\n")
	for _, call := range log.Effects {
		if call.Machine == name {
			fmt.Fprintln(&text, describe(call))
		}
	}
	uuid := ""
	for _, s := range w.subjects {
		if s.name == name {
			uuid = s.uuid
		}
	}
	for _, e := range w.engines {
		fmt.Fprintf(&text, "\nlog of %s about it:\n%s\n", e.name, strings.Join(e.logLines(uuid), "\n"))
	}
	return text.String()
}
