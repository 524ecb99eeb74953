package agent

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// mask hides what differs from boot to boot: identifiers, times, the archive of logs, and the prose
// that explains the arguments of steps.
func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			switch key {
			case "started_at", "description", "system_logs":
				v[key] = "masked"
			default:
				v[key] = mask(child)
			}
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
	}
	return v
}

// identities replaces identifiers of commands by the order of their appearance.
type identities map[string]string

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// learn remembers which identifier of this run stands for a recorded one.
func (ids identities) learn(recorded, got any) {
	r, isCommand := recorded.(map[string]any)
	g, ok := got.(map[string]any)
	if !isCommand || !ok || r["id"] == nil || g["id"] == nil {
		return
	}
	ids[fmt.Sprint(r["id"])] = fmt.Sprint(g["id"])
}

// translate puts this run's identifiers into recorded text.
func (ids identities) translate(text string) string {
	return uuidPattern.ReplaceAllStringFunc(text, func(id string) string {
		if mine, known := ids[id]; known {
			return mine
		}
		return id
	})
}

func TestReplayOfEngineToAgent(t *testing.T) {
	a := newAgent(t, nil, nil)
	if err := a.acceptToken(lookupConfig{AgentToken: recordedToken, TokenRequired: true}); err != nil {
		t.Fatalf("adopt token: %v", err)
	}
	t.Cleanup(a.commands.end)
	ids := identities{}
	replayed := 0
	for _, x := range recording(t, engineToAgent) {
		t.Run(fmt.Sprintf("%02d %s", x.Seq, x.What), func(t *testing.T) {
			recorder := ask(a, x.Method, ids.translate(x.Path), string(x.Body))
			if recorder.Code == http.StatusPermanentRedirect { // the recorded client followed the redirect
				recorder = ask(a, x.Method, recorder.Header().Get("Location"), string(x.Body))
			}
			if recorder.Code != x.Answer.Status {
				t.Errorf("status is %d, recorded %d", recorder.Code, x.Answer.Status)
			}
			got := canonical(t, recorder.Body.Bytes())
			ids.learn(canonical(t, x.Answer.Body), got)
			want := canonical(t, []byte(ids.translate(string(x.Answer.Body))))
			shorten(want, got)
			if diff := cmp.Diff(mask(want), mask(got)); diff != "" {
				t.Errorf("answer differs (-recorded +got):\n%s", diff)
			}
			if ct := recorder.Header().Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type is %q", ct)
			}
			awaitIdle(t, a) // the recorded client waited, too
		})
		replayed++
	}
	if replayed != 25 {
		t.Errorf("replayed %d exchanges, want 25", replayed)
	}
}

// ask sends one request to an agent that does not run.
func ask(a *Agent, method, target, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Host = "127.0.0.1:9999"
	recorder := httptest.NewRecorder()
	a.Handler().ServeHTTP(recorder, request)
	return recorder
}

// shorten replaces results that the recording abbreviates.
func shorten(recorded, got any) {
	r, ok := recorded.(map[string]any)
	g, ok2 := got.(map[string]any)
	if !ok || !ok2 {
		return
	}
	commands, _ := r["commands"].([]any)
	mine, _ := g["commands"].([]any)
	for i := range min(len(commands), len(mine)) {
		if rc, ok := commands[i].(map[string]any); ok && rc["command_result"] == "<as above>" {
			if gc, ok := mine[i].(map[string]any); ok && gc["command_result"] != nil {
				gc["command_result"] = "<as above>"
			}
		}
	}
}

// awaitIdle waits until no command runs.
func awaitIdle(t *testing.T, a *Agent) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); a.commands.busyWith() != ""; {
		if time.Now().After(deadline) {
			t.Fatal("a command runs for too long")
		}
		runtime.Gosched()
	}
}

func TestReplayOfAgentToEngine(t *testing.T) {
	e := newEngine(t)
	clock := newFakeClock(false)
	a := newAgent(t, e, func(c *Config) { c.Clock = clock })
	_, powerOff := run(t, a)
	clock.advance(t, 2, startUpMax)
	e.awaitCalls(t, CallHeartbeat, 1)
	clock.advance(t, 2, 18*time.Second) // 0.6 of the recorded timeout of 30 s
	e.awaitCalls(t, CallHeartbeat, 2)
	powerOff()

	e.mu.Lock()
	defer e.mu.Unlock()
	recorded := recording(t, agentToEngine)
	if len(e.calls) < len(recorded) {
		t.Fatalf("agent made %d calls, recorded %d", len(e.calls), len(recorded))
	}
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for i, x := range recorded {
		got := e.calls[i]
		if got.method != x.Method || got.uri != x.Path {
			t.Errorf("call %d is %s %s, recorded %s %s", i, got.method, got.uri, x.Method, x.Path)
		}
		for _, name := range []string{"User-Agent", "Accept", "Content-Type", versionHeader} {
			if got.header.Get(name) != x.Headers[name] {
				t.Errorf("call %d has %s %q, recorded %q", i, name, got.header.Get(name), x.Headers[name])
			}
		}
		want := x.Body
		if string(want) == "null" {
			want = nil
		}
		if diff := cmp.Diff(canonical(t, want), canonical(t, []byte(port.ReplaceAllString(got.body, "127.0.0.1:9999")))); diff != "" {
			t.Errorf("call %d has another body (-recorded +got):\n%s", i, diff)
		}
	}
}

func TestCommandsAreServedOverTLSWithTheAnnouncedCertificate(t *testing.T) {
	e := newEngine(t)
	a := newAgent(t, e, func(c *Config) { c.TLS = true; c.Clock = Accelerated(100) })
	run(t, a)
	beat := e.awaitCalls(t, CallHeartbeat, 1)[0]
	body := canonical(t, []byte(beat.body)).(map[string]any)
	callback := body["callback_url"].(string)
	if !strings.HasPrefix(callback, "https://127.0.0.1:") {
		t.Fatalf("callback_url is %s, want https", callback)
	}
	client := clientTrusting(t, body["agent_verify_ca"].(string))
	response, err := client.Get(callback + "/v1/status")
	if err != nil {
		t.Fatalf("read status with the announced certificate: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	status, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(status), DefaultVersion) {
		t.Errorf("status answer is %d %s, error %v", response.StatusCode, status, err)
	}
	if other, err := http.Get(callback + "/v1/status"); err == nil {
		_ = other.Body.Close()
		t.Error("a client with the usual trust roots accepts the self-signed certificate")
	}
}
