package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// exchange is one entry of the recording.
type exchange struct {
	Seq       int               `json:"seq"`
	Direction string            `json:"direction"`
	What      string            `json:"what"`
	Method    string            `json:"method"`
	Path      string            `json:"path"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	Answer    struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"answer"`
}

const (
	agentToEngine = "agent to engine"
	engineToAgent = "engine to agent"
	recordedToken = "recorded-token-0123456789-abcdefghijklmnop"
	recordedNode  = "7fd54a0b-7b17-4c0b-8b0f-0a8a7a4a1c11"
)

// recording returns the exchanges of one direction.
func recording(t testing.TB, direction string) []exchange {
	t.Helper()
	raw, err := os.ReadFile("testdata/ironic-python-agent-" + DefaultVersion + ".json")
	if err != nil {
		t.Fatalf("read recording: %v", err)
	}
	var all, wanted []exchange
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("decode recording: %v", err)
	}
	for _, e := range all {
		if e.Direction == direction {
			wanted = append(wanted, e)
		}
	}
	return wanted
}

// document is the recorded inspection document.
func document(t testing.TB) []byte {
	t.Helper()
	return recording(t, agentToEngine)[0].Body
}

// call is a request that the stand-in engine got.
type call struct {
	method, uri string
	header      http.Header
	body        string
}

// engine stands in for a real engine. It answers each kind of call with a queue of answers, of
// which the last is repeated, and remembers the calls.
type engine struct {
	*httptest.Server
	mu      sync.Mutex
	calls   []call
	answers map[Call][]answer
	arrived chan struct{} // gets a value for every call
}

type answer struct {
	status int
	body   string
}

// newEngine answers like the recorded stand-in unless a test says otherwise.
func newEngine(t testing.TB) *engine {
	t.Helper()
	e := &engine{answers: map[Call][]answer{}, arrived: make(chan struct{}, 10_000)}
	for _, x := range recording(t, agentToEngine)[:4] {
		e.answer(callOf(x.Path), answer{x.Answer.Status, string(x.Answer.Body)})
	}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(e.Close)
	return e
}

func callOf(path string) Call {
	for prefix, c := range map[string]Call{
		"/v1/continue_inspection": CallInspect, "/v1/lookup": CallLookup, "/v1/heartbeat": CallHeartbeat,
	} {
		if strings.HasPrefix(path, prefix) {
			return c
		}
	}
	return CallVersion
}

// answer sets the queue of answers to one kind of call.
func (e *engine) answer(c Call, queue ...answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[c] = queue
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := callOf(r.URL.Path)
	e.mu.Lock()
	e.calls = append(e.calls, call{r.Method, r.URL.RequestURI(), r.Header, string(body)})
	queue := e.answers[c]
	if len(queue) > 1 {
		e.answers[c] = queue[1:]
	}
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(queue[0].status)
	if queue[0].body != "null" {
		_, _ = io.WriteString(w, queue[0].body)
	}
	e.arrived <- struct{}{}
}

// got returns the calls of one kind.
func (e *engine) got(c Call) []call {
	e.mu.Lock()
	defer e.mu.Unlock()
	var calls []call
	for _, x := range e.calls {
		if callOf(x.uri) == c {
			calls = append(calls, x)
		}
	}
	return calls
}

// awaitCalls waits until n calls of a kind arrived and returns them.
func (e *engine) awaitCalls(t testing.TB, c Call, n int) []call {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		if calls := e.got(c); len(calls) >= n {
			return calls
		}
		select {
		case <-e.arrived:
		case <-deadline:
			t.Fatalf("engine got %d calls of kind %s, want %d", len(e.got(c)), c, n)
		}
	}
}

// fakeClock is a clock that a test moves.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	instant bool // timers fire at once and move the clock
	pauses  []time.Duration
	timers  map[*fakeTimer]struct{}
	changed chan struct{}
}

type fakeTimer struct {
	clock *fakeClock
	due   time.Time
	fired chan time.Time
}

func newFakeClock(instant bool) *fakeClock {
	return &fakeClock{
		now: time.Unix(1_700_000_000, 0), instant: instant,
		timers: map[*fakeTimer]struct{}{}, changed: make(chan struct{}, 10_000),
	}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *fakeClock) NewTimer(d time.Duration) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{clock: c, due: c.now.Add(d), fired: make(chan time.Time, 1)}
	c.pauses = append(c.pauses, d)
	if c.instant {
		c.now = c.now.Add(d)
		t.fired <- c.now
		return t
	}
	c.timers[t] = struct{}{}
	c.changed <- struct{}{}
	return t
}

func (t *fakeTimer) C() <-chan time.Time { return t.fired }

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, pending := t.clock.timers[t]
	delete(t.clock.timers, t)
	return pending
}

// advance waits until n timers are pending and then moves the clock.
func (c *fakeClock) advance(t testing.TB, n int, d time.Duration) {
	t.Helper()
	deadline := time.After(time.Minute)
	for c.pending() < n {
		select {
		case <-c.changed:
		case <-deadline:
			t.Fatalf("%d timers are pending, want %d", c.pending(), n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for timer := range c.timers {
		if !timer.due.After(c.now) {
			timer.fired <- c.now
			delete(c.timers, timer)
		}
	}
}

func (c *fakeClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// recordedPauses returns the pauses asked for so far.
func (c *fakeClock) recordedPauses() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Duration(nil), c.pauses...)
}

// newAgent returns an agent of the recorded machine; tests change the config.
func newAgent(t testing.TB, e *engine, change func(*Config)) *Agent {
	t.Helper()
	config := Config{
		Client:   http.DefaultClient,
		Document: func() []byte { return document(t) },
		Hostname: "vm",
		Address:  netip.MustParseAddrPort("127.0.0.1:0"),
		Random:   rand.New(rand.NewPCG(1, 2)),
	}
	if e != nil {
		config.Engine = e.URL
	}
	if change != nil {
		change(&config)
	}
	if config.Engine != "" && config.CallbackURLs == nil {
		config.CallbackURLs = []string{config.Engine + "/v1/continue_inspection"}
	}
	return New(config)
}

// run starts an agent and returns the channel of its result and a power switch.
func run(t testing.TB, a *Agent) (ended <-chan error, powerOff func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- a.Run(ctx) }()
	t.Cleanup(cancel)
	return result, cancel
}

// await returns the result of an agent that should end by itself.
func await(t testing.TB, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("agent did not end")
		return nil
	}
}

// canonical decodes JSON for comparison.
func canonical(t testing.TB, raw []byte) any {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return v
}

// lookupDocument is a lookup answer with a given token.
func lookupDocument(token string, heartbeatTimeout int) answer {
	return answer{http.StatusOK, fmt.Sprintf(
		`{"node":{"uuid":%q},"config":{"heartbeat_timeout":%d,"agent_token":%q,"agent_token_required":true}}`,
		recordedNode, heartbeatTimeout, token)}
}
