package pxefilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// world is a filter that runs on a database in memory and a real folder, on the
// clock of a synctest bubble.
type world struct {
	t        *testing.T
	db       *database
	dir      string
	log      *logBuffer
	opts     Options
	filter   *Filter
	signals  atomic.Int32 // that dnsmasq got
	denied   atomic.Bool  // no signal can be sent
	stop     func()
	finished chan error
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: newDatabase(), dir: t.TempDir(), log: &logBuffer{}}
	w.opts = Options{
		HostsDir: w.dir, InspectInterfaces: []string{"agent"}, DnsmasqPID: 7,
		PollInterval: DefaultPollInterval, SyncPeriod: DefaultSyncPeriod, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	return w
}

// make builds a filter of the world.
func (w *world) make() *Filter {
	w.t.Helper()
	f, err := New(w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	f.open = w.db.open
	f.dnsmasq.proc = processes(w.t, map[string]string{"7": "dnsmasq"})
	f.dnsmasq.signal = func(int, syscall.Signal) error {
		if w.denied.Load() {
			return syscall.EPERM
		}
		w.signals.Add(1)
		return nil
	}
	return f
}

// start runs a filter until stop or the end of the test, and lets it come to rest.
func (w *world) start() {
	w.t.Helper()
	f := w.make()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	w.filter, w.finished = f, done
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.t.Errorf("filter ended with %v", err)
			}
		})
	}
	w.t.Cleanup(w.stop)
	synctest.Wait()
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (w *world) want(text map[string]Verdict) {
	w.t.Helper()
	want := map[string]string{}
	for name, v := range text {
		want[name] = content(name, v)
	}
	wantFiles(w.t, w.dir, want)
}

func (w *world) logged(count int, text string) {
	w.t.Helper()
	if got := w.log.count(text); got != count {
		w.t.Errorf("the log has %q %d times, want %d:\n%s", text, got, count, w.log.text.String())
	}
}

func numbered(id int64, n store.BootNode) store.BootNode {
	n.ID, n.UUID = id, fmt.Sprintf("node-%d", id)
	return n
}

func TestFilterFollowsAnInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.Manageable, mac1)), numbered(2, agentNode(node.Active, mac2)))
		w.start()
		w.want(map[string]Verdict{mac1: Deny, mac2: Deny, unknownFile: Deny})

		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.pass(DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Allow, mac2: Deny, unknownFile: Deny})
		w.logged(1, `verdict=allow because="the phase of its node is served" node=node-1 state="inspect wait" mac=`+mac1)

		w.db.put(numbered(1, agentNode(node.Manageable, mac1)))
		w.pass(DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Deny, mac2: Deny, unknownFile: Deny})
		w.logged(1, "Filter is active")
	})
}

func TestUnknownMachinesAreServedWhileANodeInInspectionHasNoPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait)))
		w.start()
		w.want(map[string]Verdict{unknownFile: Allow})
		w.db.put(numbered(1, agentNode(node.Inspecting, mac1))) // its post has brought a port
		w.pass(DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
	})
}

func TestADeletedPortFollowsTheRuleForUnknownMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)), numbered(2, agentNode(node.Manageable, mac2)))
		w.start()
		w.db.drop(1)
		w.pass(DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Deny, mac2: Deny, unknownFile: Deny})

		w.db.put(numbered(3, agentNode(node.InspectWait)))
		w.pass(DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Allow, mac2: Deny, unknownFile: Allow})

		w.stop()
		before := w.signals.Load()
		w.start()
		w.want(map[string]Verdict{mac2: Deny, unknownFile: Allow})
		if got := w.signals.Load() - before; got != 1 {
			t.Errorf("dnsmasq got %d signals at the next start, want one", got)
		}
		w.logged(1, "Removed the rule of an address")
	})
}

func TestHeartbeatsAndIdleNodesCostNoFullRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := numbered(1, agentNode(node.Manageable, mac1))
		w.db.put(n)
		w.start()
		for range 10 {
			w.db.put(n) // nothing that matters here has changed
			w.pass(DefaultPollInterval)
		}
		if _, reads, whole := w.db.counts(); reads != 11 || whole != 1 {
			t.Errorf("%d readings, %d of everything; want 11 and 1", reads, whole)
		}
		w.pass(20 * DefaultPollInterval)
		if tokens, reads, _ := w.db.counts(); reads != 11 || tokens < 25 {
			t.Errorf("%d readings and %d looks of an idle database, want 11 and many", reads, tokens)
		}
		w.pass(DefaultSyncPeriod)
		if _, _, whole := w.db.counts(); whole != 2 {
			t.Errorf("%d readings of everything after nodes changed, want 2", whole)
		}
		for range 10 {
			w.db.elsewhere() // the engine says that it is alive
			w.pass(DefaultSyncPeriod)
		}
		if _, _, whole := w.db.counts(); whole != 2 {
			t.Errorf("%d readings of everything although no node changed, want 2", whole)
		}
	})
}

func TestFullComparisonFindsWhatShowsNowhereElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.start()
		w.db.secretly(numbered(1, agentNode(node.InspectWait, mac2)))
		put(t, w.dir, unknownFile, "*:*:*:*:*:*\n") // by somebody else
		w.pass(DefaultSyncPeriod + DefaultPollInterval)
		w.want(map[string]Verdict{mac1: Deny, mac2: Allow, unknownFile: Deny})
	})
}

func TestADatabaseThatIsNotThereIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		put(t, w.dir, mac2, mac2+"\n")
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.db.fail(errors.New("there is none: start the engine"))
		w.start()
		w.pass(time.Minute)
		w.want(map[string]Verdict{mac2: Allow})
		w.logged(1, "there is none: start the engine")
		if answer := health(w.filter); answer.Code != 503 || !strings.Contains(answer.Body.String(), "start the engine") {
			t.Errorf("health check: %d %s", answer.Code, answer.Body)
		}

		w.db.fail(nil)
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
		w.logged(1, "Database can be read again")
		if answer := health(w.filter); answer.Code != 200 || answer.Body.String() != "active\n" {
			t.Errorf("health check: %d %s", answer.Code, answer.Body)
		}
	})
}

func TestADatabaseThatGoesAwayLeavesTheFolderAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.start()
		w.db.fail(errors.New("connection refused"))
		w.db.drop(1)
		w.pass(time.Minute)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
		w.db.fail(nil)
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Deny, unknownFile: Deny})
		if opened := w.db.timesOpened(); opened != 2 {
			t.Errorf("the database was opened %d times, want twice", opened)
		}
	})
}

func health(f *Filter) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	f.status.ServeHTTP(answer, nil)
	return answer
}

func TestWhatWaitingDoesNotMendEndsTheFilter(t *testing.T) {
	for _, cause := range []error{store.ErrUnknownSchema, store.ErrWrongURL} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.db.fail(fmt.Errorf("open database: %w", cause))
			if err := w.make().Run(t.Context()); !errors.Is(err, cause) {
				t.Errorf("error = %v, want %v", err, cause)
			}
			w.want(nil)
		})
	}
}

func TestAMissingFolderEndsTheFilterAtItsStart(t *testing.T) {
	w := newWorld(t)
	w.opts.HostsDir = filepath.Join(w.dir, "none")
	if err := w.make().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "create it") {
		t.Errorf("error = %v, want one that says to create the folder", err)
	}
}

func TestAFolderThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1, mac2)))
		if err := os.Mkdir(filepath.Join(w.dir, mac1), 0o700); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.logged(1, "bring 1 files in step")
		if _, err := os.Stat(filepath.Join(w.dir, mac2)); err != nil {
			t.Errorf("one bad name keeps the others from being written: %v", err)
		}
		w.pass(time.Minute)
		w.logged(1, "remove what is in the way")
		if err := os.Remove(filepath.Join(w.dir, mac1)); err != nil {
			t.Fatal(err)
		}
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Allow, mac2: Allow, unknownFile: Deny})
		w.logged(1, "in step again")
	})
}

func TestRecreatedFolderIsFilledAndLockedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.start()
		if err := os.RemoveAll(w.dir); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.logged(1, "create it, and give it to dnsmasq")
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w.pass(longestWait)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
		if _, err := newFolder(w.dir).take(); !errors.Is(err, errTaken) {
			t.Errorf("lock of the new folder: error = %v, want errTaken", err)
		}
	})
}

func TestTheSecondFilterTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.put(numbered(1, agentNode(node.Manageable, mac1)))
		w.start()
		stopFirst := w.stop
		w.start()
		second := w.filter
		w.pass(10 * time.Second)
		w.logged(1, "standing by")
		w.logged(1, "Filter is active")
		if answer := health(second); answer.Code != 200 || answer.Body.String() != "standby\n" {
			t.Errorf("health check of the second: %d %s", answer.Code, answer.Body)
		}
		stopFirst()
		w.db.put(numbered(1, agentNode(node.InspectWait, mac1)))
		w.pass(lockInterval)
		w.want(map[string]Verdict{mac1: Allow, unknownFile: Deny})
		w.logged(2, "Filter is active")
	})
}

// TestDnsmasqIsToldAtEveryStart is for a process that was killed between removing
// a file and telling dnsmasq.
func TestDnsmasqIsToldAtEveryStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for start := range 2 {
			w.start()
			w.stop()
			if got := w.signals.Load(); got != int32(start+1) {
				t.Errorf("dnsmasq got %d signals after %d starts", got, start+1)
			}
		}
	})
}

func TestReloadOfDnsmasqIsRepeatedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.denied.Store(true)
		w.start()
		w.pass(3 * DefaultSyncPeriod)
		w.logged(1, "run this as the same user")
		w.denied.Store(false)
		w.pass(DefaultSyncPeriod + DefaultPollInterval)
		w.logged(1, "Told dnsmasq to read its hosts anew")
		before := w.signals.Load()
		w.pass(3 * DefaultSyncPeriod)
		if got := w.signals.Load() - before; got != 0 {
			t.Errorf("dnsmasq got %d more signals without a reason", got)
		}
	})
}

func TestWithoutAProcessToTellTheLogSaysWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.DnsmasqPID = 0
		w.start()
		w.stop()
		w.logged(0, "SIGHUP")
		put(t, w.dir, mac1, mac1+"\n")
		w.start()
		w.logged(1, "Send SIGHUP to dnsmasq")
	})
}

func TestFloodOfDiscoveredMachinesWritesNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Discovery = true
		w.start()
		flood := func(provisional bool) {
			for i := range 20 {
				n := numbered(int64(i+1), agentNode(node.Enroll))
				n.Provisional = provisional
				for j := range 64 {
					n.MACs = append(n.MACs, fmt.Sprintf("02:00:00:00:%02x:%02x", i, j))
				}
				w.db.put(n)
			}
			w.pass(DefaultPollInterval)
		}
		flood(true)
		w.want(map[string]Verdict{unknownFile: Allow})
		answer := httptest.NewRecorder()
		w.filter.metrics.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if !strings.Contains(answer.Body.String(), "ingot_pxe_filter_ports_without_file 1280\n") {
			t.Errorf("metrics = %s, want all ports without a file", answer.Body)
		}
		flood(false) // a person accepts them all
		if got := len(w.filter.folder.files); got != 20*64+1 {
			t.Errorf("%d files, want one for each port", got)
		}
		w.logged(changesAtOnce, "msg=\"Changed the rule of a port\"")
	})
}

func TestTenThousandPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const nodes, each = 2500, 4
		all := make([]store.BootNode, nodes)
		for i := range all {
			macs := make([]string, each)
			for j := range macs {
				macs[j] = fmt.Sprintf("52:54:00:%02x:%02x:%02x", j, i>>8, i&0xff)
			}
			all[i] = numbered(int64(i+1), agentNode(node.Manageable, macs...))
		}
		w.db.put(all...)
		w.start()
		if got := len(files(t, w.dir)); got != nodes*each+2 {
			t.Errorf("%d files, want %d", got, nodes*each+2)
		}
		if w.signals.Load() == 0 {
			t.Error("dnsmasq was not told to read anew after so many changes")
		}
		w.logged(0, "Changed the rule")
		all[7].State = node.InspectWait
		w.db.put(all[7])
		w.pass(DefaultPollInterval)
		w.logged(each, "Changed the rule of a port")
		w.pass(2 * DefaultSyncPeriod)
		w.logged(each, "Changed the rule of a port")
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"no folder":         {func(o *Options) { o.HostsDir = "" }, "--dhcp-hostsdir"},
		"no interface":      {func(o *Options) { o.InspectInterfaces = nil }, "--inspect-interface"},
		"empty interface":   {func(o *Options) { o.InspectInterfaces = []string{""} }, "--inspect-interface"},
		"unknown phase":     {func(o *Options) { o.Serve = []string{"cooking"} }, `"cooking"`},
		"too busy":          {func(o *Options) { o.PollInterval = time.Millisecond }, "--poll-interval"},
		"too often":         {func(o *Options) { o.SyncPeriod = 0 }, "--sync-period"},
		"two processes":     {func(o *Options) { o.DnsmasqPIDFile = "pid" }, "exclude each other"},
		"a negative number": {func(o *Options) { o.DnsmasqPID = -1 }, "--dnsmasq-pid"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := newWorld(t).opts
			test.spoil(&opts)
			if _, err := New(opts); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}
