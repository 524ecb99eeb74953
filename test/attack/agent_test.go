//go:build attack

package attack_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/process"
)

// shortWindow makes an agent count as silent after a second, the shortest time that is allowed.
const shortWindow = "agent.heartbeat_timeout=1s"

// ramdisk is an agent that answers calls at its callback URL, under the certificate of
// its heartbeats.
type ramdisk struct {
	node
	client *client
	server *httptest.Server
	token  string
	beat   string // body of its heartbeats
	calls  atomic.Int64
}

// startRamdisk looks a node up and sends a heartbeat. When the agent is called, it runs called
// before it answers.
func (e *engine) startRamdisk(n node, called func()) *ramdisk {
	e.t.Helper()
	r := &ramdisk{node: n, client: e.clientAt(netip.MustParseAddr("127.0.1.1"))}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.calls.Add(1)
		called()
		_, _ = io.WriteString(w, `{"started_at": 1795167249.5, "version": "9.11.0"}`) // the caller may be gone
	}))
	r.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	r.server.StartTLS()
	e.t.Cleanup(r.server.Close)
	var status int
	if status, r.token = r.client.lookUp(e.t, "node_uuid="+n.uuid); !issued(r.token) {
		e.t.Fatalf("the ramdisk's own lookup: %d %q, want a token", status, r.token)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	r.beat = fmt.Sprintf(`{"callback_url":%q,"agent_version":"9.11.0","agent_token":%q,"agent_verify_ca":%q}`, r.server.URL, r.token, certificate)
	r.wantHeartbeat(e.t, http.StatusAccepted)
	return r
}

// wantHeartbeat sends a heartbeat, which must have this answer.
func (r *ramdisk) wantHeartbeat(t *testing.T, want int) {
	t.Helper()
	status, text, err := r.client.do(t.Context(), http.MethodPost, "/v1/heartbeat/"+r.uuid, []byte(r.beat))
	if err != nil || status != want {
		t.Errorf("heartbeat: %d %v %s, want %d", status, err, text, want)
	}
}

// lookUp looks a machine up and returns the status and the token of the answer.
func (c *client) lookUp(t *testing.T, query string) (status int, token string) {
	t.Helper()
	status, text, err := c.do(t.Context(), http.MethodGet, "/v1/lookup?"+query, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	var answer struct {
		Config struct {
			Token string `json:"agent_token"`
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Errorf("lookup: %d %v %s", status, err, text)
	}
	return status, answer.Config.Token
}

// issued reports whether a lookup got a token.
func issued(token string) bool { return token != "" && token != "******" }

// replacements returns what the history of a node says about tokens that were replaced.
func (e *engine) replacements(n node) (rows []string) {
	e.t.Helper()
	history := e.admin().must(e.t, http.MethodGet, "/v1/nodes/"+n.uuid+"/history/detail", "")["history"].([]any)
	for _, row := range history {
		if event := fmt.Sprint(row.(map[string]any)["event"]); strings.Contains(event, "the old one is void") {
			rows = append(rows, event)
		}
	}
	return rows
}

// TestAttackerGetsNoTokenOfALiveAgent lets an attacker who knows everything about a machine ask
// for its token, after the heartbeats of the agent have been lost for longer than the window.
func TestAttackerGetsNoTokenOfALiveAgent(t *testing.T) {
	e := startEngine(t, "", shortWindow)
	r := e.startRamdisk(e.awaitRamdisk(1), func() {})
	foreign := e.clientAt(mallory)
	asked := 0
	ask := func() {
		t.Helper()
		query := []string{"addresses=" + r.mac, "node_uuid=" + r.uuid, "addresses=" + r.mac + "&node_uuid=" + r.uuid}[asked%3]
		asked++
		if status, token := foreign.lookUp(t, query); status == http.StatusOK && token == "" || issued(token) {
			t.Fatalf("lookup %d: %d with the token %q", asked, status, token)
		}
	}
	process.Eventually(t, waitTimeout, "a call to the agent", func() bool {
		ask()
		return r.calls.Load() > 0
	})
	for range 100 {
		ask()
	}
	foreign.must(t, http.MethodPost, "/v1/continue_inspection", inventoryOf(r.mac))
	for range 100 {
		ask()
	}
	r.wantHeartbeat(t, http.StatusAccepted)
	if rows := e.replacements(r.node); len(rows) > 0 {
		t.Errorf("the token was replaced: %q", rows)
	}
	t.Logf("%d lookups by an attacker caused %d calls and got no token", asked, r.calls.Load())
}

// TestSilentAgentIsReplacedOnlyWhereARamdiskIsExpected has two agents that fell silent. The node of
// one waits for its inventory; the node of the other has its inventory and is at rest.
func TestSilentAgentIsReplacedOnlyWhereARamdiskIsExpected(t *testing.T) {
	e := startEngine(t, "", shortWindow, "inspector.power_off=false")
	resting := e.startRamdisk(e.awaitRamdisk(1), func() {})
	resting.client.must(t, http.MethodPost, "/v1/continue_inspection", inventoryOf(resting.mac))
	e.awaitState(resting.node, "manageable")
	resting.server.Close()
	expected := e.startRamdisk(e.awaitRamdisk(2), func() {})
	expected.server.Close()

	// Whoever gets the token of the second agent knows that the window of both has ended.
	machine := e.clientAt(netip.MustParseAddr("127.0.1.2"))
	replaced := func(r *ramdisk) (token string) {
		t.Helper()
		process.Eventually(t, waitTimeout, "a new token", func() bool {
			var status int
			status, token = machine.lookUp(t, "addresses="+r.mac)
			if status != http.StatusOK && status != http.StatusConflict {
				t.Fatalf("lookup: %d, want 409 and then a token", status)
			}
			return issued(token)
		})
		rows := e.replacements(r.node)
		if len(rows) != 1 || !strings.Contains(rows[0], "127.0.1.2") || !strings.Contains(rows[0], r.server.URL) {
			t.Errorf("the history says %q, want one row with who asked and where the agent did not answer", rows)
		}
		r.wantHeartbeat(t, http.StatusBadRequest)
		return token
	}
	if token := replaced(expected); token == expected.token {
		t.Error("the token is the old one")
	}
	foreign := e.clientAt(mallory)
	if status, token := foreign.lookUp(t, "addresses="+expected.mac); status != http.StatusConflict || token != "" {
		t.Errorf("the next one to ask: %d %q, want 409", status, token)
	}

	for range 10 {
		if status, token := foreign.lookUp(t, "addresses="+resting.mac); status != http.StatusNotFound || token != "" {
			t.Errorf("lookup of a node that expects no ramdisk: %d %q, want 404", status, token)
		}
	}
	if rows := e.replacements(resting.node); len(rows) > 0 {
		t.Errorf("the token of a node that expects no ramdisk was replaced: %q", rows)
	}
	// The state of the node kept the token: as soon as the node expects a ramdisk, there is a new
	// token.
	e.admin().must(t, http.MethodPatch, "/v1/nodes/"+resting.uuid, `[{"op":"add","path":"/driver_info/fast_track","value":true}]`)
	replaced(resting)
}

// Bounds of the calls that the engine makes because somebody asks for a token: at the same time,
// and to an agent that answers, per minute.
const (
	callsAtOnce  = 8
	callsOfAgent = 1
)

// TestLookupsMakeTheEngineCallAgentsRarely floods an engine with lookups of machines whose agents
// live but whose heartbeats were lost. At first the agents answer slowly.
func TestLookupsMakeTheEngineCallAgentsRarely(t *testing.T) {
	const agents, more = 20, 2000
	e := startEngine(t, "", shortWindow)
	var running, most, calls atomic.Int64
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	called := func() {
		calls.Add(1)
		most.Store(max(most.Load(), running.Add(1))) // a race can only make it less
		<-answer
		running.Add(-1)
	}
	ramdisks := make([]*ramdisk, agents)
	for i := range ramdisks {
		ramdisks[i] = e.startRamdisk(e.awaitRamdisk(i), called)
	}

	defer release() // otherwise the agents never end

	began := time.Now()
	sent, held := 0, 0 // lookups, and those of them while agents took their time
	var sentWhenBusy, sentWhenCalled int
	e.lookUpAll(ramdisks, func() (goOn bool) {
		sent++
		if sentWhenBusy == 0 && running.Load() >= callsAtOnce {
			sentWhenBusy = sent
		}
		if held == 0 && sentWhenBusy > 0 && sent >= sentWhenBusy+more {
			held = sent
			release()
		}
		if held > 0 && sentWhenCalled == 0 && calls.Load() >= agents {
			sentWhenCalled = sent
		}
		return sentWhenCalled == 0 || sent < sentWhenCalled+more
	})
	if got := most.Load(); got != callsAtOnce {
		t.Errorf("%d calls at once, want %d", got, callsAtOnce)
	}
	for i, r := range ramdisks {
		if got := r.calls.Load(); got != callsOfAgent {
			t.Errorf("agent %d was called %d times, want %d", i, got, callsOfAgent)
		}
		r.wantHeartbeat(t, http.StatusAccepted)
	}
	t.Logf("%d lookups in %v made %d calls to %d agents, %d at once, which did not answer for the first %d lookups",
		sent, time.Since(began).Round(time.Millisecond), calls.Load(), agents, most.Load(), held)
}

// lookUpAll lets attackers at several addresses look nodes up. None of them may get a token. Before
// each lookup it calls goOn, never twice at the same time, which returns whether to continue.
func (e *engine) lookUpAll(ramdisks []*ramdisk, goOn func() bool) {
	e.t.Helper()
	const sources = 32
	ctx, cancel := context.WithTimeout(e.t.Context(), waitTimeout)
	defer cancel()
	var mu sync.Mutex
	may := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return ctx.Err() == nil && goOn()
	}
	var attackers sync.WaitGroup
	for i := range sources {
		c := e.clientAt(netip.AddrFrom4([4]byte{127, 0, 66, byte(1 + i)}))
		attackers.Go(func() {
			for j := i; may(); j++ {
				if status, token := c.lookUp(e.t, "addresses="+ramdisks[j%len(ramdisks)].mac); issued(token) {
					e.t.Errorf("a lookup got the token of an agent that lives: %d", status)
					return
				}
			}
		})
	}
	attackers.Wait()
	if ctx.Err() != nil {
		e.t.Errorf("not within %s", waitTimeout)
	}
}
