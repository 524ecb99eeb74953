package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
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
		{"node is busy, then free", []answer{{503, "{}"}, accepted}, 2, inspectPauses[:1], recordedNode},
		{"conflict", []answer{{409, "{}"}}, 1, nil, ""},
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
	bound := lookupPauseMin
	for i, p := range clock.recordedPauses() {
		if total >= lookupTimeout {
			t.Fatalf("attempt %d begins after %s, want none after %s", i+1, total, lookupTimeout)
		}
		if p < lookupPauseMin || p > bound {
			t.Errorf("pause %d is %s, want %s to %s", i+1, p, lookupPauseMin, bound)
		}
		total += p
		bound = min(2*bound, lookupPauseMax)
	}
	if total < lookupTimeout {
		t.Errorf("the agent gave up after %s, want %s at least", total, lookupTimeout)
	}
}

func TestLookupWaitsLongerWhileTheNodeIsLocked(t *testing.T) {
	e := newEngine(t)
	locked := answer{409, "{}"}
	e.answer(CallLookup, locked, locked, answer{404, "{}"}, locked, locked, lookupDocument(recordedToken, 30))
	clock := newFakeClock(true)
	_, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = clock }))
	e.awaitCalls(t, CallHeartbeat, 1)
	powerOff()
	pauses := clock.recordedPauses()
	for i, want := range []struct{ low, high time.Duration }{
		{5 * time.Second, 5 * time.Second},
		{time.Second, time.Second}, // bounds of the usual pause double
		{10 * time.Second, 10 * time.Second},
		{time.Second, 2 * time.Second},
		{time.Second, 4 * time.Second},
		{30 * time.Second, 30 * time.Second},
		{time.Second, 8 * time.Second},
		{30 * time.Second, 30 * time.Second},
		{time.Second, 16 * time.Second},
	} {
		if pauses[i] < want.low || pauses[i] > want.high {
			t.Errorf("pause %d is %s, want %s to %s", i+1, pauses[i], want.low, want.high)
		}
	}
}

// TestTimeOfRequestsCountsForLookups has an engine that takes five minutes for each answer.
func TestTimeOfRequestsCountsForLookups(t *testing.T) {
	e := newEngine(t)
	e.answer(CallLookup, answer{404, "{}"})
	clock := newFakeClock(true)
	slow := func(c *Config) {
		c.Clock = clock
		c.Client = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if callOf(r.URL.Path) == CallLookup {
				clock.NewTimer(5 * time.Minute)
			}
			return http.DefaultTransport.RoundTrip(r)
		})}
	}
	ended, _ := run(t, newAgent(t, e, slow))
	if lookupError := new(LookupError); !errors.As(await(t, ended), &lookupError) {
		t.Error("the agent did not give up")
	}
	if got := len(e.got(CallLookup)); got != 2 {
		t.Errorf("%d lookups, want 2", got)
	}
}

// transport is a round trip as a function.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// TestInspectionWithoutAnswerEndsTheAgent has engines that fall silent at each point of the first
// post. They answer all later requests.
func TestInspectionWithoutAnswerEndsTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		sent  bool // the engine got the whole document
		fails error
		ends  bool
	}{
		"no answer":         {true, nil, true},
		"not connected":     {false, nil, false},
		"connection broken": {true, errors.New("connection reset by peer"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				posts := 0
				a := newAgent(t, nil, func(c *Config) {
					c.Engine = "http://engine"
					c.Client = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
						if callOf(r.URL.Path) != CallInspect {
							return nil, errors.New("not reached by this test")
						}
						if posts++; posts > 1 {
							return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
						}
						if test.sent {
							httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
						}
						if test.fails != nil {
							return nil, test.fails
						}
						<-r.Context().Done()
						return nil, r.Context().Err()
					})}
				})
				ctx, powerOff := context.WithTimeout(t.Context(), time.Minute)
				defer powerOff()
				began := time.Now()
				err := a.Run(ctx)
				switch {
				case test.ends && (!errors.Is(err, ErrInspectionUnanswered) || time.Since(began) != requestTimeout || posts != 1):
					t.Errorf("agent ended after %s and %d posts with %v, want that after %s and one post", time.Since(began), posts, err, requestTimeout)
				case !test.ends && (!errors.Is(err, context.DeadlineExceeded) || posts != 2):
					t.Errorf("agent posted %d times and ended with %v, want a second post, and an end only with its power", posts, err)
				}
			})
		})
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
		version  string
		bootWith string // pregenerated token
		offered  string
		sent     any // in the heartbeat
		err      error
	}{
		{"token is taken over", "", "", long, long, nil},
		{"short token is ignored", "", "", "short", nil, nil},
		{"hidden token without own", "9.11.0", "", tokenGiven, nil, nil},
		{"hidden token without own, newer", "11.0.0", "", tokenGiven, nil, ErrNoToken},
		{"hidden token with own", "9.11.0", long, tokenGiven, long, nil},
		{"hidden token with own, newer", "11.0.0", long, tokenGiven, long, nil},
		{"new token replaces own", "", strings.Repeat("y", tokenLength), long, long, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEngine(t)
			e.answer(CallLookup, lookupDocument(tc.offered, 30))
			ended, powerOff := run(t, newAgent(t, e, func(c *Config) { c.Clock = newFakeClock(true); c.Token, c.Version = tc.bootWith, tc.version }))
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

func TestUnknownVersionIsRefused(t *testing.T) {
	err := newAgent(t, nil, func(c *Config) { c.Version = "1.0.0" }).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1.0.0") || !strings.Contains(err.Error(), DefaultVersion) {
		t.Errorf("error = %v, want one that names the version and a known one", err)
	}
}

func TestReadingCommandsNeedsTheTokenSinceVersion11(t *testing.T) {
	for version, statuses := range map[string][]int{
		"":       {200, 200, 200, 200},
		"11.0.0": {200, 401, 401, 200},
	} {
		a := newAgent(t, nil, func(c *Config) { c.Version = version })
		if err := a.acceptToken(lookupConfig{AgentToken: recordedToken, TokenRequired: true}); err != nil {
			t.Fatal(err)
		}
		for i, query := range []string{"", "?agent_token=wrong", "", "?agent_token=" + recordedToken} {
			if got := ask(a, http.MethodGet, "/v1/commands/"+query, "").Code; got != statuses[i] {
				t.Errorf("version %q, request %d: status %d, want %d", version, i+1, got, statuses[i])
			}
		}
	}
}

func TestAgentReportsItsVersion(t *testing.T) {
	e := newEngine(t)
	a := newAgent(t, e, func(c *Config) { c.Clock, c.Version = newFakeClock(true), "11.0.0" })
	_, powerOff := run(t, a)
	beat := e.awaitCalls(t, CallHeartbeat, 1)[0]
	powerOff()
	for place, text := range map[string]string{"heartbeat": beat.body, "status": ask(a, http.MethodGet, "/v1/status", "").Body.String()} {
		if !strings.Contains(text, `version":"11.0.0"`) {
			t.Errorf("%s is %s, want the version", place, text)
		}
	}
}

func TestPathsWithoutTheirSlashRedirect(t *testing.T) {
	a := newAgent(t, nil, nil)
	for _, test := range []struct {
		method, target string
		status         int
		location       string
	}{
		{"GET", "/v1", 308, "http://127.0.0.1:9999/v1/"},
		{"GET", "/v1/commands?agent_token=t&wait=true", 308, "http://127.0.0.1:9999/v1/commands/?agent_token=t&wait=true"},
		{"POST", "/v1/commands?wait=false", 308, "http://127.0.0.1:9999/v1/commands/?wait=false"},
		{"POST", "/commands", 308, "http://127.0.0.1:9999/commands/"},
		{"DELETE", "/v1/commands", 405, ""},
		{"POST", "/v1", 405, ""},
		{"GET", "/v1/status/", 404, ""},
	} {
		got := ask(a, test.method, test.target, "{}")
		if got.Code != test.status || got.Header().Get("Location") != test.location {
			t.Errorf("%s %s: %d to %q, want %d to %q", test.method, test.target, got.Code, got.Header().Get("Location"), test.status, test.location)
		}
	}
}
