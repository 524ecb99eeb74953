package bmctest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/bmctest"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// start starts a BMC and returns options that reach it.
func start(t *testing.T, vendor string, options ...redfishtest.Options) (*redfishtest.Server, bmctest.Options) {
	t.Helper()
	s := redfishtest.Start(t, vendor, options...)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, bmctest.Options{
		Address: s.URL, User: redfishtest.User, Password: redfishtest.Password, CAFile: file, Clock: clockOf(s),
	}
}

// edited puts a proxy before a BMC. The proxy changes the documents of virtual devices.
func edited(t *testing.T, o *bmctest.Options, edit func(medium map[string]any)) {
	t.Helper()
	target, err := url.Parse(o.Address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.Method != http.MethodGet || !strings.Contains(answer.Request.URL.Path, "/VirtualMedia/") {
			return nil
		}
		var medium map[string]any
		if err := json.NewDecoder(answer.Body).Decode(&medium); err != nil {
			return err
		}
		edit(medium)
		text, err := json.Marshal(medium)
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		answer.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	o.Address, o.CAFile, o.Insecure = server.URL, "", true
}

// clockOf returns the clock of a BMC, which advances only when the test waits.
func clockOf(s *redfishtest.Server) bmctest.Clock {
	began, passed := time.Now(), time.Duration(0)
	return bmctest.Clock{
		Now: func() time.Time { return began.Add(passed) },
		Wait: func(ctx context.Context, d time.Duration) error {
			passed += d
			s.Pass(d)
			return ctx.Err()
		},
	}
}

// run tries the BMC.
func run(ctx context.Context, t *testing.T, o bmctest.Options) bmctest.Report {
	t.Helper()
	report, err := bmctest.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// result is that of a check.
func result(t *testing.T, report bmctest.Report, check string) bmctest.Result {
	t.Helper()
	i := slices.IndexFunc(report.Results, func(r bmctest.Result) bool { return r.Check == check })
	if i < 0 {
		t.Fatalf("there is no check %q in %+v", check, report.Results)
	}
	return report.Results[i]
}

// want compares the result of a check.
func want(t *testing.T, report bmctest.Report, check string, outcome bmctest.Outcome, texts ...string) {
	t.Helper()
	got := result(t, report, check)
	if got.Outcome != outcome {
		t.Errorf("%s: %q (%s), want %q", check, got.Outcome, got.Found, outcome)
	}
	for _, text := range texts {
		if !strings.Contains(got.Found+" "+got.Advice, text) {
			t.Errorf("%s: found %q, advice %q, want %q in it", check, got.Found, got.Advice, text)
		}
	}
}

func eachVendor(t *testing.T, test func(t *testing.T, vendor string)) {
	t.Helper()
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) { test(t, vendor) })
	}
}

func readJSON(t *testing.T, from io.Reader, into any) {
	t.Helper()
	if err := json.NewDecoder(from).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func portOf(s *ipmitest.Server) string { return strconv.Itoa(int(s.Address.Port())) }
