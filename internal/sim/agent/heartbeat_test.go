package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHeartbeatsContinueWhateverTheEngineAnswers(t *testing.T) {
	e := newEngine(t)
	e.answer(CallHeartbeat, answer{202, ""}, answer{409, "{}"}, answer{404, "{}"}, answer{200, "{}"}, answer{503, ""}, answer{202, ""})
	clock := newFakeClock(true)
	ended, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = clock }))
	e.awaitCalls(t, CallHeartbeat, 7)
	powerOff()
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("agent ended with %v, want the power cut", err)
	}
	var waits []time.Duration // two timers per heartbeat: the wait and the gap
	for i, p := range clock.recordedPauses() {
		if i%2 == 0 {
			waits = append(waits, p)
		}
	}
	bounds := func(low, high time.Duration) [2]time.Duration { return [2]time.Duration{low, high} }
	usual, retry := bounds(9*time.Second, 18*time.Second), bounds(heartbeatRetryMin, heartbeatRetryMax)
	for i, want := range [][2]time.Duration{bounds(startUpMin, startUpMax), usual, retry, retry, retry, retry, usual} {
		if waits[i] < want[0] || waits[i] > want[1] {
			t.Errorf("wait before heartbeat %d is %s, want %s to %s", i+1, waits[i], want[0], want[1])
		}
	}
}

// TestAgentWithoutATokenGoesOn has an engine that has issued the token before, and therefore
// refuses each heartbeat.
func TestAgentWithoutATokenGoesOn(t *testing.T) {
	e := newEngine(t)
	e.answer(CallLookup, lookupDocument(tokenGiven, 30))
	e.answer(CallHeartbeat, answer{400, "{}"})
	clock := newFakeClock(true)
	_, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = clock }))
	for _, beat := range e.awaitCalls(t, CallHeartbeat, 5)[:5] {
		if token, sent := canonical(t, []byte(beat.body)).(map[string]any)["agent_token"]; token != nil || !sent {
			t.Errorf("heartbeat %s, want a token that is null", beat.body)
		}
	}
	powerOff()
	if got := len(e.got(CallLookup)); got != 1 {
		t.Errorf("%d lookups, want 1", got)
	}
	for i, wait := range clock.recordedPauses()[2:10] {
		if i%2 == 0 && (wait < heartbeatRetryMin || wait > heartbeatRetryMax) {
			t.Errorf("wait before heartbeat %d is %s, want %s to %s", i/2+2, wait, heartbeatRetryMin, heartbeatRetryMax)
		}
	}
}

// post sends a command to a running agent and returns the status.
func post(t *testing.T, a *Agent, query, body string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	a.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost,
		"/v1/commands/?agent_token="+recordedToken+query, strings.NewReader(body)))
	return recorder
}

func TestEndOfACommandForcesAHeartbeat(t *testing.T) {
	e := newEngine(t)
	clock := newFakeClock(false)
	a := newAgent(t, e, func(c *Config) { c.Clock = clock })
	run(t, a)
	clock.advance(t, 2, startUpMax)
	e.awaitCalls(t, CallHeartbeat, 1)

	body := `{"name":"clean.execute_clean_step","params":{"step":{"step":"erase_devices_metadata"},"node":{},"ports":[]}}`
	if got := post(t, a, "&wait=false", body); got.Code != 200 || !strings.Contains(got.Body.String(), statusRunning) {
		t.Fatalf("command is answered %d %s, want a running command", got.Code, got.Body)
	}
	if got := post(t, a, "", body); got.Code != 409 || !strings.Contains(got.Body.String(), "Agent is busy: executing command execute_clean_step") {
		t.Errorf("second command is answered %d %s, want busy", got.Code, got.Body)
	}
	clock.advance(t, 3, 4*time.Second) // the command ends before the gap
	awaitIdle(t, a)
	if got := len(e.got(CallHeartbeat)); got != 1 {
		t.Errorf("engine got %d heartbeats before the gap was over, want 1", got)
	}
	clock.advance(t, 2, 2*time.Second)
	e.awaitCalls(t, CallHeartbeat, 2)
}

func TestPowerCommandsEndTheAgent(t *testing.T) {
	for name, want := range map[string]error{"standby.power_off": ErrPoweredOff, "standby.run_image": ErrRebooted} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			a := newAgent(t, e, func(c *Config) { c.Clock = Accelerated(20) })
			ended, _ := run(t, a)
			e.awaitCalls(t, CallHeartbeat, 1)
			if got := post(t, a, "&wait=true", `{"name":"`+name+`","params":{}}`); !strings.Contains(got.Body.String(), statusSucceeded) {
				t.Errorf("command is answered %s, want success", got.Body)
			}
			if err := await(t, ended); !errors.Is(err, want) {
				t.Errorf("agent ended with %v, want %v", err, want)
			}
		})
	}
}

func TestPowerCutEndsRunningCommands(t *testing.T) {
	e := newEngine(t)
	clock := newFakeClock(false)
	a := newAgent(t, e, func(c *Config) { c.Clock = clock })
	ended, powerOff := run(t, a)
	clock.advance(t, 2, startUpMax)
	e.awaitCalls(t, CallHeartbeat, 1)
	body := `{"name":"standby.prepare_image","params":{"image_info":{"id":"i","urls":["http://h/i"],"os_hash_algo":"sha256","os_hash_value":"0"}}}`
	if got := post(t, a, "", body); got.Code != 200 {
		t.Fatalf("command is answered %d %s", got.Code, got.Body)
	}
	powerOff()
	if err := await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("agent ended with %v, want the power cut", err)
	}
	if got := post(t, a, "", body); got.Code != 503 && got.Code != 409 {
		t.Errorf("command after the power cut is answered %d, want a refusal", got.Code)
	}
}

func TestPausesDependOnTheRandomSourceOnly(t *testing.T) {
	pauses := func(seed uint64) []time.Duration {
		e := newEngine(t)
		e.answer(CallLookup, answer{404, "{}"}, answer{409, "{}"}, lookupDocument(recordedToken, 30))
		clock := newFakeClock(true)
		_, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock, c.Random = clock, rand.New(rand.NewPCG(seed, 0)) }))
		e.awaitCalls(t, CallHeartbeat, 5)
		powerOff()
		return clock.recordedPauses()[:10]
	}
	first := pauses(1)
	if diff := cmp.Diff(first, pauses(1)); diff != "" {
		t.Errorf("two agents of one seed pause differently:\n%s", diff)
	}
	if cmp.Equal(first, pauses(2)) {
		t.Error("agents of two seeds pause alike")
	}
}
