//go:build attack

package attack_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// How long each flood lasts, and what must hold meanwhile.
const (
	floodTime   = 4 * time.Second
	inTime      = time.Second            // time within which machines are answered
	wantInTime  = 0.99                   // part of their requests that are answered in time
	maxMemory   = 250 << 20              // of the engine, in bytes
	maxPatch    = 100 * time.Millisecond // of 95 % of the PATCHes
	maxLogBytes = 8 << 20
	// measurements is how often a flood is played if its times do not hold. Other programs on the
	// computer make requests late, too, but hardly each time. A defect makes them late each time.
	measurements = 5
)

func TestMachinesAndClientsAreServedDuringFloods(t *testing.T) {
	// Floods from many sources that enrol are left out on PostgreSQL: each source gets its turn, so
	// nobody would be enrolled within a second.
	for database, names := range map[string][]string{"sqlite": slices.Sorted(maps.Keys(floods)), "postgres": reachDatabase} {
		for _, name := range names {
			t.Run(database+"/"+name, func(t *testing.T) {
				var late []string
				for n := range measurements {
					t.Run(strconv.Itoa(n+1), func(t *testing.T) { late = withstand(t, database, name) })
					if len(late) == 0 || t.Failed() {
						return
					}
				}
				t.Errorf("in each of %d measurements requests were late, at last: %s", measurements, strings.Join(late, "; "))
			})
		}
	}
}

// withstand plays a flood against a new engine. It returns which requests were late.
func withstand(t *testing.T, database, name string) (late []string) {
	t.Helper()
	url := ""
	if database == "postgres" {
		url = storetest.Postgres(t)
	}
	e := startEngine(t, url)
	w := newRegularClients(t, e)
	w.warmUp()
	busy := e.awaitRamdisk(knownMachines + lookedUp)
	e.keepBusy(busy)
	rate := e.flood(name, w.machines[0].node, busy, w.watch)
	return w.judge(name, rate)
}

// keepBusy lets the engine work on a node that waits for its ramdisk, for longer than a flood
// lasts.
func (e *engine) keepBusy(n node) {
	e.t.Helper()
	c := e.admin()
	c.must(e.t, http.MethodPatch, "/v1/nodes/"+n.uuid, `[{"op":"add","path":"/driver_info/fake_power_delay","value":30}]`)
	// The machine is on already.
	c.must(e.t, http.MethodPut, "/v1/nodes/"+n.uuid+"/states/power", `{"target":"rebooting"}`)
	process.Eventually(e.t, waitTimeout, "the node is reserved", func() bool {
		return c.must(e.t, http.MethodGet, "/v1/nodes/"+n.uuid+"?fields=reservation", "")["reservation"] != nil
	})
}

// flood lets a process on one core flood the engine while watch runs. It returns how many requests
// that process sent per second.
func (e *engine) flood(name string, victim, busy node, watch func(context.Context)) (rate float64) {
	e.t.Helper()
	program, err := os.Executable()
	if err != nil {
		e.t.Fatal(err)
	}
	command := exec.Command("taskset", "-c", "0", program)
	command.Env = append(os.Environ(), floodVariable+"="+name, targetVariable+"="+e.address, victimVariable+"="+victim.uuid, busyVariable+"="+busy.uuid, "GOMAXPROCS=1")
	end, err := command.StdinPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	var said strings.Builder
	command.Stdout, command.Stderr = &said, os.Stderr
	if err := command.Start(); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), floodTime)
	defer cancel()
	watch(ctx)
	_ = end.Close()
	if err := command.Wait(); err != nil {
		e.t.Fatalf("flood: %v", err)
	}
	var sent, milliseconds int64
	if _, err := fmt.Sscan(said.String(), &sent, &milliseconds); err != nil {
		e.t.Fatalf("flood said %q: %v", said.String(), err)
	}
	return float64(sent) / float64(milliseconds) * 1000
}

// regularClients send the requests of machines and clients that are no attackers, and record the
// answers.
type regularClients struct {
	t        *testing.T
	engine   *engine
	machines []*machine
	silent   chan node // nodes that wait for ramdisks that have not looked them up yet

	mu      sync.Mutex
	answers map[string]*answers
}

// machine is a machine whose node waits for it, with the token of its agent.
type machine struct {
	node   node
	client *client
	token  string
}

// answers are the answers to one kind of request.
type answers struct {
	times []time.Duration // of all
	late  int             // how many were late or refused
	worst string
}

// Machines that behave.
const (
	knownMachines = 10 // that send heartbeats
	lookedUp      = 40 // that look themselves up, one after the other
)

func newRegularClients(t *testing.T, e *engine) *regularClients {
	t.Helper()
	w := &regularClients{t: t, engine: e, answers: map[string]*answers{}}
	for i := range knownMachines {
		m := &machine{node: e.awaitRamdisk(i), client: e.clientAt(netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + i)}))}
		m.token = m.client.must(t, http.MethodGet, "/v1/lookup?addresses="+m.node.mac, "")["config"].(map[string]any)["agent_token"].(string)
		w.machines = append(w.machines, m)
	}
	w.silent = make(chan node, lookedUp)
	for i := range lookedUp {
		w.silent <- e.awaitRamdisk(knownMachines + i)
	}
	return w
}

// warmUp sends one request of each kind, so that no request that counts is the first of its kind.
func (w *regularClients) warmUp() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 500*time.Millisecond)
	defer cancel()
	w.watch(ctx)
	clear(w.answers)
}

// watch sends requests until ctx ends.
func (w *regularClients) watch(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, m := range w.machines {
		body := fmt.Sprintf(`{"callback_url":"https://127.0.1.%d:9999","agent_version":"9.0","agent_token":%q}`, 1+i, m.token)
		running.Go(func() {
			w.repeat(ctx, "heartbeats", 200*time.Millisecond, http.StatusAccepted, func(int) (int, []byte, error) {
				return m.client.do(context.WithoutCancel(ctx), http.MethodPost, "/v1/heartbeat/"+m.node.uuid, []byte(body))
			})
		})
	}
	running.Go(func() {
		w.repeat(ctx, "posts", 100*time.Millisecond, http.StatusOK, func(i int) (int, []byte, error) {
			n := time.Now().UnixNano() / int64(time.Millisecond)
			machine := w.engine.clientAt(netip.AddrFrom4([4]byte{127, 0, 2, byte(1 + i%200)}))
			return machine.do(context.WithoutCancel(ctx), http.MethodPost, "/v1/continue_inspection",
				[]byte(inventoryOf(fmt.Sprintf("02:bb:%02x:%02x:%02x:%02x", byte(n>>24), byte(n>>16), byte(n>>8), byte(n)))))
		})
	})
	running.Go(func() {
		w.repeat(ctx, "lookups", 200*time.Millisecond, http.StatusOK, func(i int) (int, []byte, error) {
			machine := w.engine.clientAt(netip.AddrFrom4([4]byte{127, 0, 3, byte(1 + i%200)}))
			return machine.do(context.WithoutCancel(ctx), http.MethodGet, "/v1/lookup?addresses="+(<-w.silent).mac, nil)
		})
	})
	admin := w.engine.admin()
	running.Go(func() {
		w.repeat(ctx, "PATCHes", 20*time.Millisecond, http.StatusOK, func(i int) (int, []byte, error) {
			n := w.machines[i%len(w.machines)].node
			return admin.do(context.WithoutCancel(ctx), http.MethodPatch, "/v1/nodes/"+n.uuid,
				fmt.Appendf(nil, `[{"op":"add","path":"/extra/n","value":%d}]`, i))
		})
	})
}

// repeat sends requests at a pace until ctx ends, and notes their answers.
func (w *regularClients) repeat(ctx context.Context, kind string, pace time.Duration, want int, send func(i int) (int, []byte, error)) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		status, text, err := send(i)
		w.note(kind, time.Since(began), status == want && err == nil, fmt.Sprintf("%d %v %.300s", status, err, text))
	}
}

func (w *regularClients) note(kind string, took time.Duration, ok bool, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.answers[kind]
	if a == nil {
		a = &answers{}
		w.answers[kind] = a
	}
	a.times = append(a.times, took)
	if !ok || took > inTime {
		a.late++
		a.worst = fmt.Sprintf("%s after %v", what, took.Round(time.Millisecond))
	}
}

// judge compares what happened with what must hold. It returns which requests were late.
func (w *regularClients) judge(name string, rate float64) (late []string) {
	w.t.Helper()
	var line strings.Builder
	fmt.Fprintf(&line, "%s: %.0f/s", name, rate)
	for _, kind := range slices.Sorted(maps.Keys(w.answers)) {
		a := w.answers[kind]
		slices.Sort(a.times)
		p95 := a.times[len(a.times)*95/100]
		inTime := 1 - float64(a.late)/float64(len(a.times))
		fmt.Fprintf(&line, "; %s %d, %.1f %% in time, p95 %v", kind, len(a.times), inTime*100, p95.Round(100*time.Microsecond))
		if inTime < wantInTime {
			late = append(late, fmt.Sprintf("%.1f %% of %d %s were answered in time, want %.0f %%; for example %s", inTime*100, len(a.times), kind, wantInTime*100, a.worst))
		}
		if kind == "PATCHes" && p95 > maxPatch {
			late = append(late, fmt.Sprintf("95 %% of the PATCHes took up to %v, want %v", p95, maxPatch))
		}
	}
	_, memory, err := w.engine.process.Memory()
	if err != nil {
		w.t.Fatal(err)
	}
	nodes, ports := w.engine.count("nodes"), w.engine.count("ports")
	fmt.Fprintf(&line, "; memory %d MB, %d nodes, %d ports", memory>>20, nodes, ports)
	if memory > maxMemory {
		w.t.Errorf("the engine took %d MB, want at most %d", memory>>20, maxMemory>>20)
	}
	if ports > nodes*64 {
		w.t.Errorf("%d nodes have %d ports, more than 64 each", nodes, ports)
	}
	info, err := os.Stat(w.engine.process.Log)
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(&line, ", log %d kB", info.Size()>>10)
	if info.Size() > maxLogBytes {
		w.t.Errorf("the log has %d kB, want at most %d", info.Size()>>10, maxLogBytes>>10)
	}
	w.t.Log(line.String())
	return late
}
