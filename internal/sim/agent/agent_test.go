package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func clientTrusting(t testing.TB, pem string) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		t.Fatalf("announced certificate is no PEM: %q", pem)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

func TestInspectionIsRepeatedOnlyWhenThatMayHelp(t *testing.T) {
	accepted := answer{http.StatusOK, `{"uuid":"` + recordedNode + `"}`}
	for _, tc := range []struct {
		name   string
		queue  []answer
		posts  int
		pauses []time.Duration
		lookup string // node_uuid of the lookup
	}{
		{"accepted", []answer{accepted}, 1, nil, recordedNode},
		{"accepted with 202", []answer{{202, accepted.body}}, 1, nil, recordedNode},
		{"node is busy, then free", []answer{{409, "{}"}, accepted}, 2, inspectPauses[:1], recordedNode},
		{"engine overloaded twice", []answer{{503, ""}, {500, ""}, accepted}, 3, inspectPauses[:2], recordedNode},
		{"engine never well", []answer{{503, ""}}, 5, inspectPauses, ""},
		{"not wanted", []answer{{404, `{"error_message":"{\"faultstring\":\"no\"}"}`}}, 1, nil, ""},
		{"malformed", []answer{{400, "{}"}}, 1, nil, ""},
		{"disabled", []answer{{403, "{}"}}, 1, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t)
			e.answer(CallInspect, tc.queue...)
			clock := newFakeClock(true)
			a := newAgent(t, e, func(c *Config) { c.Clock = clock })
			_, powerOff := run(t, a)
			lookups := e.awaitCalls(t, CallLookup, 1)
			powerOff()
			if got := len(e.got(CallInspect)); got != tc.posts {
				t.Errorf("agent posted %d times, want %d", got, tc.posts)
			}
			if diff := cmp.Diff(tc.pauses, firstPauses(clock, len(tc.pauses))); diff != "" {
				t.Errorf("pauses differ (-want +got):\n%s", diff)
			}
			if hasUUID := strings.Contains(lookups[0].uri, "node_uuid="+recordedNode); hasUUID != (tc.lookup != "") {
				t.Errorf("lookup is %s, want node_uuid %q", lookups[0].uri, tc.lookup)
			}
		})
	}
}

func firstPauses(c *fakeClock, n int) []time.Duration {
	if n == 0 {
		return nil
	}
	pauses := c.recordedPauses()
	return pauses[:min(n, len(pauses))]
}

func TestInspectionIsRepeatedWhileTheEngineCannotBeReached(t *testing.T) {
	e := newEngine(t)
	e.Close()
	clock := newFakeClock(true)
	a := newAgent(t, e, func(c *Config) { c.Clock = clock })
	ended, _ := run(t, a)
	var lookupError *LookupError
	if err := await(t, ended); !errors.As(err, &lookupError) {
		t.Fatalf("agent ended with %v, want a lookup error", err)
	}
	if diff := cmp.Diff(inspectPauses, firstPauses(clock, len(inspectPauses))); diff != "" {
		t.Errorf("pauses differ (-want +got):\n%s", diff)
	}
}

func TestLookupGivesUpAfterItsTimeoutWithGrowingPauses(t *testing.T) {
	e := newEngine(t)
	e.answer(CallLookup, answer{404, `{"error_message":"{\"faultcode\":\"Client\",\"faultstring\":\"Node was not found\"}"}`})
	clock := newFakeClock(true)
	ended, _ := run(t, newAgent(t, e, func(c *Config) { c.Clock = clock }))
	err := await(t, ended)
	var lookupError *LookupError
	if !errors.As(err, &lookupError) || !strings.Contains(err.Error(), "404 Node was not found") {
		t.Fatalf("agent ended with %v, want a lookup error that repeats the engine's words", err)
	}
	var total time.Duration
	pauses := clock.recordedPauses()
	for _, p := range pauses {
		total += p
	}
	if total > lookupTimeout || total < lookupTimeout/2 {
		t.Errorf("agent waited %s in all, want at most %s and not much less", total, lookupTimeout)
	}
	if pauses[0] > 3*time.Second || pauses[len(pauses)-1] < 10*pauses[0] {
		t.Errorf("pauses %v do not grow from about a second", pauses)
	}
}

func TestLookupWaitsLongerWhileTheNodeIsLocked(t *testing.T) {
	e := newEngine(t)
	e.answer(CallLookup, answer{409, "{}"}, answer{409, "{}"}, lookupDocument(recordedToken, 30))
	clock := newFakeClock(true)
	_, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = clock }))
	e.awaitCalls(t, CallHeartbeat, 1)
	powerOff()
	for _, pause := range clock.recordedPauses()[:2] {
		if pause < conflictPauseMin || pause > conflictPauseMax {
			t.Errorf("pause after a conflict is %s, want between %s and %s", pause, conflictPauseMin, conflictPauseMax)
		}
	}
}

func TestVersionsFollowTheEngine(t *testing.T) {
	root := func(version string) answer {
		return answer{200, `{"default_version":{"version":"` + version + `"}}`}
	}
	for _, tc := range []struct {
		name              string
		root              answer
		lookup, heartbeat string
		keys              string
	}{
		{"new engine", root("1.109"), "1.62", "1.68", "agent_token agent_version callback_url"},
		{"engine before certificates", root("1.65"), "1.62", "1.65", "agent_token agent_version callback_url"},
		{"engine before tokens", root("1.50"), "1.50", "1.50", "agent_version callback_url"},
		{"engine that does not say", answer{500, ""}, "1.31", "1.31", "callback_url"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t)
			e.answer(CallVersion, tc.root)
			_, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = newFakeClock(true) }))
			beat := e.awaitCalls(t, CallHeartbeat, 1)[0]
			powerOff()
			if got := e.got(CallLookup)[0].header.Get(versionHeader); got != tc.lookup {
				t.Errorf("lookup asks for %s, want %s", got, tc.lookup)
			}
			if got := beat.header.Get(versionHeader); got != tc.heartbeat {
				t.Errorf("heartbeat asks for %s, want %s", got, tc.heartbeat)
			}
			body := canonical(t, []byte(beat.body)).(map[string]any)
			for _, key := range strings.Fields(tc.keys) {
				if _, there := body[key]; !there {
					t.Errorf("heartbeat %s lacks %s", beat.body, key)
				}
			}
			if len(body) != len(strings.Fields(tc.keys)) {
				t.Errorf("heartbeat %s has other keys than %s", beat.body, tc.keys)
			}
		})
	}
}

func TestTokenRules(t *testing.T) {
	long := strings.Repeat("x", tokenLength)
	for _, tc := range []struct {
		name     string
		bootWith string // pregenerated token
		offered  string
		sent     any // in the heartbeat
		err      error
	}{
		{"token is taken over", "", long, long, nil},
		{"short token is ignored", "", "short", nil, nil},
		{"hidden token without own", "", tokenGiven, nil, ErrNoToken},
		{"hidden token with own", long, tokenGiven, long, nil},
		{"new token replaces own", strings.Repeat("y", tokenLength), long, long, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t)
			e.answer(CallLookup, lookupDocument(tc.offered, 30))
			ended, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = newFakeClock(true); c.Token = tc.bootWith }))
			if tc.err != nil {
				if err := await(t, ended); !errors.Is(err, tc.err) {
					t.Fatalf("agent ended with %v, want %v", err, tc.err)
				}
				return
			}
			beat := e.awaitCalls(t, CallHeartbeat, 1)[0]
			powerOff()
			if got := canonical(t, []byte(beat.body)).(map[string]any)["agent_token"]; got != tc.sent {
				t.Errorf("heartbeat carries token %v, want %v", got, tc.sent)
			}
		})
	}
}

func TestAgentWithoutTokenTakesCommandsWithoutOne(t *testing.T) {
	a := newAgent(t, nil, nil)
	if err := a.acceptToken(lookupConfig{AgentToken: "short", TokenRequired: true}); err != nil {
		t.Fatalf("adopt: %v", err)
	}
	for query, want := range map[string]int{"": 200, "?agent_token=anything": 401} {
		request := httptest.NewRequest(http.MethodPost, "/v1/commands/"+query, strings.NewReader(`{"name":"standby.sync","params":{}}`))
		recorder := httptest.NewRecorder()
		a.Handler().ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("command with query %q is answered %d, want %d", query, recorder.Code, want)
		}
	}
}
