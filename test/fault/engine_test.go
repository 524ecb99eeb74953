//go:build fault

package fault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/store/storetest"
	"github.com/ingot-metal/ingot/test/process"
)

// Times of the engines of a world. They are shorter than the defaults, so that more
// happens in a run.
const (
	leaseTTL    = 4 * time.Second
	callTimeout = 2 * time.Second
	stopWithin  = 30 * time.Second // of an engine that is asked to stop
)

var settings = []string{
	"conductor.lease_duration=" + leaseTTL.String(), "conductor.call_timeout=" + callTimeout.String(),
	"conductor.lock_wait=1s", "conductor.max_attempts=4", "conductor.callback_timeout=20s",
	"conductor.power_timeout=8s", "conductor.soft_power_off_timeout=8s",
	"conductor.power_sync_interval=6s", "conductor.power_failure_recovery_interval=6s",
}

// engine is one of the engines of a world. Its process is killed, paused and started
// again; its connections to the database go through a proxy of its own.
type engine struct {
	w                  *world
	name, address, log string
	database           string
	proxy              *storetest.Proxy
	api                api

	mu      sync.Mutex
	process *process.Process
	mode    mode
}

// mode is what clients find of an engine.
type mode int

const (
	down mode = iota
	paused
	running
)

func (w *world) newEngine(name string) *engine {
	w.t.Helper()
	e := &engine{w: w, name: name, address: process.Address(w.t), log: filepath.Join(w.dir, name+".log")}
	e.proxy, e.database = storetest.ThroughProxy(w.t, w.server.URL)
	e.api = newAPI(e.address, clientTimeout)
	return e
}

func (e *engine) set(p *process.Process, m mode) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process, e.mode = p, m
}

func (e *engine) is() mode {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mode
}

// start runs the engine until it answers. An engine that finds no database ends, and is started
// again.
func (e *engine) start(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := process.Start(engineCommand(e.database, e.address, e.name, settings...), e.log)
		if err != nil {
			e.w.violated("", "start %s: %v", e.name, err)
			return
		}
		e.set(p, down)
		for pass(ctx, 50*time.Millisecond) && !p.Ended() {
			if _, _, err := e.api.ask("GET", "/", nil); err == nil {
				e.set(p, running)
				e.w.note("", "%s answers", e.name)
				return
			}
		}
		pass(ctx, 300*time.Millisecond)
	}
}

func (e *engine) kill() {
	e.set(e.process, down)
	e.process.Kill()
}

// stop lets the engine end in order.
func (e *engine) stop() {
	e.set(e.process, down)
	e.process.Signal(syscall.SIGTERM)
	select {
	case <-e.process.Done():
	case <-time.After(stopWithin):
		e.w.violated("", "%s does not end within %s of being asked to", e.name, stopWithin)
		e.process.Kill()
	}
}

// pause stops the process for a while. The process does not notice.
func (e *engine) pause(ctx context.Context, d time.Duration) {
	e.set(e.process, paused)
	e.process.Signal(syscall.SIGSTOP)
	pass(ctx, d)
}

func (e *engine) goOn() {
	e.process.Signal(syscall.SIGCONT)
	e.set(e.process, running)
}

// engineFaults are the faults that happen to an engine. Each leaves the engine healthy, even if ctx
// ends.
var engineFaults = []struct {
	name   string
	weight int
	happen func(context.Context, *engine, *rand.Rand)
}{
	{"killed", 4, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.kill()
		pass(ctx, upTo(r, leaseTTL*3/2))
		e.start(e.w.ctx)
	}},
	{"killed and at once started", 2, func(_ context.Context, e *engine, _ *rand.Rand) {
		e.kill()
		e.start(e.w.ctx)
	}},
	{"stopped in order", 2, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.stop()
		pass(ctx, upTo(r, leaseTTL))
		e.start(e.w.ctx)
	}},
	{"paused", 2, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.pause(ctx, upTo(r, leaseTTL))
		e.goOn()
	}},
	{"paused beyond its leases", 5, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.pause(ctx, leaseTTL+callTimeout+upTo(r, leaseTTL))
		e.goOn()
	}},
	{"paused and killed", 1, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.pause(ctx, upTo(r, leaseTTL))
		e.kill()
		e.start(e.w.ctx)
	}},
	{"database hangs for it", 3, func(ctx context.Context, e *engine, r *rand.Rand) {
		resume := e.proxy.Hang()
		pass(ctx, upTo(r, 2*leaseTTL))
		resume()
	}},
	{"database out of its reach", 3, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.proxy.Refuse(true)
		e.proxy.Disconnect()
		pass(ctx, upTo(r, 2*leaseTTL))
		e.proxy.Mend()
	}},
	{"answer of a commit lost", 3, func(ctx context.Context, e *engine, r *rand.Rand) {
		for range 1 + r.IntN(4) {
			e.proxy.Lose("COMMIT\x00")
			pass(ctx, upTo(r, time.Second))
		}
		e.proxy.Mend()
	}},
	{"commit cut off", 2, func(ctx context.Context, e *engine, r *rand.Rand) {
		for range 1 + r.IntN(4) {
			e.proxy.Cut("COMMIT\x00")
			pass(ctx, upTo(r, time.Second))
		}
		e.proxy.Mend()
	}},
	{"connection cut off", 2, func(ctx context.Context, e *engine, r *rand.Rand) {
		e.proxy.CutAfter(r.IntN(200))
		pass(ctx, upTo(r, leaseTTL))
		e.proxy.Mend()
	}},
}

// injectFaults makes faults happen to an engine until ctx ends, and leaves it healthy.
func (e *engine) injectFaults(ctx context.Context, r *rand.Rand) {
	var names []int // as often as their weight
	for i, f := range engineFaults {
		for range f.weight {
			names = append(names, i)
		}
	}
	for pass(ctx, time.Second+upTo(r, 9*time.Second)) {
		if e.process.Ended() {
			e.w.violated("", "%s ended by itself", e.name)
			e.start(e.w.ctx)
		}
		fault := engineFaults[names[r.IntN(len(names))]]
		when := ""
		if r.IntN(3) > 0 && e.awaitCall(ctx) {
			when = " during a call"
		}
		e.w.happened("engine "+fault.name+when, "%s: %s%s", e.name, fault.name, when)
		fault.happen(ctx, e, r)
		e.w.note("", "%s: no longer %s", e.name, fault.name)
	}
}

// awaitCall waits a little until the engine is about to change a machine, and reports
// whether it is.
func (e *engine) awaitCall(ctx context.Context) bool {
	var log struct {
		Calls []effect.Effect `json:"effects"`
		Next  int64           `json:"next"`
	}
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline) && pass(ctx, 5*time.Millisecond); {
		if e.w.machines.read(fmt.Sprintf("/calls?since=%d", max(0, log.Next-100)), &log) != nil {
			return false
		}
		if slices.ContainsFunc(log.Calls, func(c effect.Effect) bool { return c.Conductor == e.name && c.Ended.IsZero() }) {
			return true
		}
	}
	return false
}

// logLines returns the lines of the engine's log that have a word in them.
func (e *engine) logLines(word string) []string {
	text, err := os.ReadFile(e.log)
	if err != nil {
		return []string{err.Error()}
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return !strings.Contains(line, word) })
}

// upTo draws a time.
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// pass lets time go by, and reports whether ctx lasted that long.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
