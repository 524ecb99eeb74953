package ironic

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEndpointIsTakenWithOrWithoutVersion(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://h:6385":             "http://h:6385/v1/",
		"http://h:6385/":            "http://h:6385/v1/",
		"http://h:6385/v1":          "http://h:6385/v1/",
		"http://h:6385/v1/":         "http://h:6385/v1/",
		"https://h/baremetal":       "https://h/baremetal/v1/",
		"https://[fe80::1]:6385/v1": "https://[fe80::1]:6385/v1/",
	} {
		if got, err := normalizeEndpoint(endpoint); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", endpoint, got, err, want)
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(notPEM, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		opts Options
		want string
	}{
		"no endpoint":      {Options{}, "is empty"},
		"no scheme":        {Options{Endpoint: "127.0.0.1:6385"}, "is not a URL"},
		"other scheme":     {Options{Endpoint: "ftp://h"}, "is not a URL"},
		"credentials":      {Options{Endpoint: "http://me:secret@h"}, "carries credentials"},
		"user only":        {Options{Endpoint: "http://h", Username: "me"}, "together"},
		"password only":    {Options{Endpoint: "http://h", Password: "p"}, "together"},
		"version":          {Options{Endpoint: "http://h", Microversion: "2.1"}, "not a version"},
		"missing CA file":  {Options{Endpoint: "http://h", CAFile: notPEM + "x"}, "read CA file"},
		"CA file, not PEM": {Options{Endpoint: "http://h", CAFile: notPEM}, "no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q and no secret", err, test.want)
			}
		})
	}
}

func TestRequestsCarryVersionCredentialsAndName(t *testing.T) {
	f, _ := newFakeEngine(t, nil)
	host := serve(t, f)
	client, err := New(Options{Endpoint: host, Username: "me", Password: "secret", UserAgent: "ingot-test/1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range client.Nodes(t.Context(), NodeQuery{}) {
		t.Errorf("unexpected node or error %v", err)
	}
	r := f.requests[1]
	user, password, _ := r.BasicAuth()
	if user != "me" || password != "secret" {
		t.Errorf("credentials %q %q", user, password)
	}
	if got := r.Header.Get("X-OpenStack-Ironic-API-Version"); got != "1.84" {
		t.Errorf("version header %q, want 1.84", got)
	}
	if got := r.UserAgent(); !strings.HasPrefix(got, "ingot-test/1 ") {
		t.Errorf("user agent %q", got)
	}
}

func TestVersionIsTheHighestBothSidesUnderstand(t *testing.T) {
	for name, test := range map[string]struct{ lowest, highest, want, fault string }{
		"older engine":   {"1.1", "1.84", "1.84", ""},
		"newer engine":   {"1.1", "1.200", "1.110", ""},
		"much too old":   {"1.1", "1.9", "", "upgrade the engine"},
		"much too new":   {"1.300", "1.400", "", "upgrade the client"},
		"not an engine":  {"", "", "", "check the endpoint"},
		"not a version":  {"1.1", "one", "", "not a version"},
		"lowest missing": {"", "1.84", "", "not a version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newFakeEngine(t, func(f *fakeEngine) { f.lowest, f.highest = test.lowest, test.highest })
			got, err := client.Microversion(t.Context())
			if got != test.want || (test.fault == "") != (err == nil) {
				t.Fatalf("got %q, %v; want %q", got, err, test.want)
			}
			if err != nil && (!errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("got %v, want ErrProtocol with %q", err, test.fault)
			}
		})
	}
}

func TestRequestThatAnOlderReplicaRefusesIsMadeAgainInItsVersion(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) { f.highest = "1.95" })
	now := time.Now()
	client.now = func() time.Time { return now }
	if v, err := client.Microversion(t.Context()); v != "1.95" || err != nil {
		t.Fatalf("got %s, %v", v, err)
	}
	refusals := 0
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-OpenStack-Ironic-API-Version") != "1.95" {
			return false
		}
		refusals++
		w.Header().Set("X-OpenStack-Ironic-API-Minimum-Version", "1.1")
		w.Header().Set("X-OpenStack-Ironic-API-Maximum-Version", "1.84")
		reply(w, 406, map[string]any{"faultstring": "unsupported"})
		return true
	}
	for range 2 {
		if _, err := client.Node(t.Context(), "n1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want the answer of the older replica, which has no such node", err)
		}
		if v, err := client.Microversion(t.Context()); v != "1.84" || err != nil {
			t.Errorf("after the refusal got %s, %v; want 1.84", v, err)
		}
	}
	if refusals != 1 {
		t.Errorf("the newer version was asked for %d times, want once", refusals)
	}
	f.override = nil
	now = now.Add(versionAge)
	if v, err := client.Microversion(t.Context()); v != "1.95" || err != nil {
		t.Errorf("after a while got %s, %v; want 1.95", v, err)
	}
}

func TestVersionIsNegotiatedAgainAfterARefusalWithoutUsableVersion(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) { f.highest = "1.95" })
	if v, err := client.Microversion(t.Context()); v != "1.95" || err != nil {
		t.Fatalf("got %s, %v", v, err)
	}
	f.highest = "1.84"
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-OpenStack-Ironic-API-Version") != "1.95" {
			return false
		}
		reply(w, 406, map[string]any{"faultstring": "unsupported"})
		return true
	}
	if _, err := client.Node(t.Context(), "n1"); !errors.Is(err, ErrRejected) {
		t.Errorf("got %v, want ErrRejected", err)
	}
	if v, err := client.Microversion(t.Context()); v != "1.84" || err != nil {
		t.Errorf("after the refusal got %s, %v; want 1.84", v, err)
	}
}

func TestEngineThatWasUpgradedIsUsedAtItsVersionAfterAWhile(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) { f.highest = "1.86" })
	now := time.Now()
	client.now = func() time.Time { return now }
	supports := func(want bool) {
		t.Helper()
		if got, err := client.Supports(t.Context(), 95); got != want || err != nil {
			t.Errorf("API version 1.95 is supported: %v, %v; want %v", got, err, want)
		}
	}
	supports(false)
	client.flagUnknown.Store(true)
	now = now.Add(versionAge)
	supports(false)
	if !client.flagUnknown.Load() {
		t.Error("what is known of the engine was forgotten, though it is the same")
	}
	f.highest = "1.95"
	supports(false)
	now = now.Add(versionAge)
	supports(true)
	if client.flagUnknown.Load() {
		t.Error("the field that the engine lacked at its former version counts as unknown")
	}
	if len(f.requests) != 3 {
		t.Errorf("requests %v, want one for each time that passed", f.paths())
	}
}

func TestChosenVersionIsNotNegotiated(t *testing.T) {
	f, _ := newFakeEngine(t, nil)
	client, err := New(Options{Endpoint: serve(t, f), Microversion: "1.50"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if v, err := client.Microversion(t.Context()); v != "1.50" || err != nil || len(f.requests) != 0 {
			t.Errorf("got %s, %v after %v", v, err, f.paths())
		}
		client.now = func() time.Time { return time.Now().Add(versionAge) }
	}
}

func TestServerThatIsNoEngineIsNamedSo(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a web site":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) },
		"no such path": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Options{Endpoint: serve(t, handler)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Node(t.Context(), "n1")
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "check the endpoint") {
				t.Errorf("got %v, want ErrProtocol that names the endpoint", err)
			}
		})
	}
}

func TestEngineCertificateIsVerifiedAsAskedFor(t *testing.T) {
	f, _ := newFakeEngine(t, nil)
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]Options{"authority": {CAFile: ca}, "insecure": {Insecure: true}} {
		opts.Endpoint = server.URL
		client, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := client.Microversion(t.Context()); v != "1.84" || err != nil {
			t.Errorf("%s: got %q, %v", name, v, err)
		}
	}
}

func TestParallelCallsShareAClient(t *testing.T) {
	_, client := newFakeEngine(t, func(f *fakeEngine) { f.nodes = someNodes(5) })
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			count := 0
			for _, err := range client.Nodes(t.Context(), NodeQuery{}) {
				if err != nil {
					t.Errorf("list: %v", err)
				}
				count++
			}
			if count != 5 {
				t.Errorf("listed %d nodes, want 5", count)
			}
		})
	}
	group.Wait()
}
