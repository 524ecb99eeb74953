//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// world is engines that share a database, machines in a process of their own, and the
// clients that ask for things.
type world struct {
	t        *testing.T
	dir      string
	seed     uint64
	began    time.Time
	ctx      context.Context //nolint:containedctx // the test's, which bounds everything
	server   *storetest.Server
	machines api
	engines  []*engine

	mu       sync.Mutex
	subjects []*subject
	notes    []note
	counts   map[string]int
	broken   map[string][]string // what does not hold, by node; "" for what is no node's
}

// note is something that happened, to a node or to the world.
type note struct {
	at   time.Time
	node string
	text string
}

// engineCount is how many engines share the database.
const engineCount = 3

// newWorld starts everything.
func newWorld(t *testing.T, ctx context.Context, seed uint64) *world { //nolint:revive // a test comes first
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), seed: seed, began: time.Now(), ctx: ctx, server: storetest.NewServer(t), counts: map[string]int{}, broken: map[string][]string{}}
	w.machines = startMachines(t, seed)
	w.machines.tell(t, http.MethodPut, "/faults", ordinary)
	for i := range engineCount {
		e := w.newEngine(fmt.Sprintf("engine-%d", i+1))
		w.engines = append(w.engines, e)
		e.start(ctx)
		t.Cleanup(func() { e.process.Kill() })
	}
	if err := w.inDatabase(func(db *pgx.Conn) error {
		_, err := db.Exec(ctx, recordLeases)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return w
}

// startMachines runs machines until the test ends.
func startMachines(t *testing.T, seed uint64) api {
	t.Helper()
	address := process.Address(t)
	process.Run(t, exec.Command(binary, "sim", "fake-machines", "--listen", address, "--seed", fmt.Sprint(seed)), filepath.Join(t.TempDir(), "machines.log"))
	machines := newAPI(address, waitTimeout)
	process.Eventually(t, waitTimeout, "machines to answer", func() bool { return machines.read("/counts", new(struct{})) == nil })
	return machines
}

// inDatabase does something on a connection that meets no faults.
func (w *world) inDatabase(do func(*pgx.Conn) error) error {
	db, err := pgx.Connect(w.ctx, w.server.URL)
	if err != nil {
		return err
	}
	defer db.Close(w.ctx)
	return do(db)
}

// note records what happened.
func (w *world) note(node, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, note{time.Now(), node, fmt.Sprintf(format, args...)})
}

// happened records something that is counted, too.
func (w *world) happened(what, format string, args ...any) {
	w.note("", format, args...)
	w.count(what)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// violated notes that something does not hold that must hold.
func (w *world) violated(node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note(node, "VIOLATION: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[node] = append(w.broken[node], text)
}

// random returns a source of random numbers for one of those that choose.
func (w *world) random(of int) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(of))) }

// injectDatabaseFaults stops and starts the server until ctx ends. It leaves the server running.
func (w *world) injectDatabaseFaults(ctx context.Context, r *rand.Rand) {
	for pass(ctx, 10*time.Second+upTo(r, 20*time.Second)) {
		how, name := storetest.Crash, "crashes"
		if r.IntN(2) == 0 {
			how, name = storetest.Shutdown, "is stopped"
		}
		w.happened("database "+name, "the database %s", name)
		if err := w.server.Halt(how); err != nil {
			w.violated("", "stop the database: %v", err)
		}
		pass(ctx, upTo(r, 3*leaseTTL/2))
		if err := w.server.Start(); err != nil {
			w.violated("", "start the database: %v", err)
			return
		}
		w.note("", "the database is back")
	}
}

// ordinary is how machines without faults behave: their calls and tasks take some time.
var ordinary = map[string]any{"delay": "250ms", "task_time": "700ms"}

// injectMachineFaults gives machines faults and takes them back until ctx ends.
func (w *world) injectMachineFaults(ctx context.Context, r *rand.Rand) {
	for pass(ctx, upTo(r, time.Second)) {
		s := w.anySubject(r)
		if s == nil {
			continue
		}
		switch drawn := r.IntN(100); {
		case drawn < 30:
			w.machines.tell(w.t, http.MethodDelete, "/machines/"+s.name+"/faults", nil)
		case drawn < 36:
			w.machines.tell(w.t, http.MethodPost, "/machines/"+s.name+"/forget-tasks", nil)
			w.note(s.name, "the machine forgets its tasks")
			w.count("machine forgets its tasks")
		default:
			faults := map[string]any{"delay": upTo(r, callTimeout*5/4).String(), "task_time": upTo(r, 4*time.Second).String()}
			for range 1 + r.IntN(2) {
				fault := []string{"hang", "refuse", "error", "lose_answer", "lose_answer", "lie", "fail_task"}[r.IntN(7)]
				faults[fault] = 0.1 + 0.7*r.Float64()
			}
			w.machines.tell(w.t, http.MethodPut, "/machines/"+s.name+"/faults", faults)
			w.note(s.name, "the machine has faults: %v", faults)
		}
	}
}

// endFaults ends the faults of all machines.
func (w *world) endFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.subjects {
		w.machines.tell(w.t, http.MethodDelete, "/machines/"+s.name+"/faults", nil)
	}
}

// anySubject returns one of the nodes, nil when there is none.
func (w *world) anySubject(r *rand.Rand) *subject {
	w.mu.Lock()
	defer w.mu.Unlock()
	var present []*subject
	for _, s := range w.subjects {
		if !s.gone.Load() {
			present = append(present, s)
		}
	}
	if len(present) == 0 {
		return nil
	}
	return present[r.IntN(len(present))]
}
