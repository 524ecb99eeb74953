package redfish_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// read reads the power state and returns how that failed.
func read(t *testing.T, d redfish.Driver, n *node.Node) *node.DriverError {
	t.Helper()
	_, err := d.PowerState(t.Context(), n)
	var failure *node.DriverError
	if err != nil && !errors.As(err, &failure) {
		t.Fatalf("error = %v, want a DriverError", err)
	}
	return failure
}

// sessions counts those that the BMC has granted to somebody.
func sessions(t *testing.T, m *machine) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL+"/redfish/v1/SessionService/Sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(redfishtest.User, redfishtest.Password)
	answer, err := m.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var collection struct{ Members []any }
	if err := json.NewDecoder(answer.Body).Decode(&collection); err != nil {
		t.Fatal(err)
	}
	return len(collection.Members)
}

// fill takes all sessions that the BMC grants and returns how many there were.
func fill(t *testing.T, m *machine) int {
	t.Helper()
	for taken := 0; ; taken++ {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL+"/redfish/v1/SessionService/Sessions",
			strings.NewReader(`{"UserName":"`+redfishtest.User+`","Password":"`+redfishtest.Password+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := m.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			return taken
		}
	}
}

func TestOneSessionServesAllCallsAndIsGivenBack(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if _, err := d.PowerState(t.Context(), m.node); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := sessions(t, m); got != 1 {
			t.Errorf("%d sessions after 20 calls, want one", got)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := sessions(t, m); got != 0 {
			t.Errorf("%d sessions after the driver was closed, want none", got)
		}
		if failure := read(t, d, m.node); failure == nil || !failure.Refused {
			t.Errorf("a call after that: %v, want a refusal", failure)
		}
	})
}

func TestIdleSessionIsGivenBack(t *testing.T) {
	m, _ := newMachine(t, "dell")
	d := redfish.New(redfish.Options{SessionIdle: time.Millisecond})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	deadline := time.Now().Add(10 * time.Second)
	for sessions(t, m) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the session was never given back")
		}
	}
	if failure := read(t, d, m.node); failure != nil {
		t.Errorf("the next call: %v", failure)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSessionThatTheBMCEndedIsRenewed(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		for range 3 {
			if failure := read(t, d, m.node); failure != nil {
				t.Fatal(failure)
			}
			m.Pass(24 * time.Hour)
		}
		if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "pxe"}, fresh); err != nil {
			t.Errorf("a change after the session has ended: %v", err)
		}
		if got := m.Effects(); len(got) != 1 {
			t.Errorf("effects = %q, want one", got)
		}
	})
}

func TestBMCWithoutAFreeSessionIsAskedWithTheCredentials(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		if taken := fill(t, m); taken == 0 {
			t.Fatal("the BMC granted no session")
		}
		if failure := read(t, d, m.node); failure != nil {
			t.Errorf("auth type auto: %v", failure)
		}
		m.info(map[string]any{"redfish_auth_type": "session"})
		if failure := read(t, d, m.node); failure == nil || !strings.Contains(failure.Reason, "grants no session") || !failure.Retryable {
			t.Errorf("auth type session: %v, want a temporary failure that says so", failure)
		}
	})
}

func TestLoginIsRefusedWithOtherStatusesThan401(t *testing.T) {
	const credentials, granted = "refuses the user name or password", "grants no session"
	message := func(id string) string {
		return `{"error": {"code": "Base.1.0.GeneralError", "@Message.ExtendedInfo": [{"MessageId": "` + id + `"}]}}`
	}
	for name, test := range map[string]struct {
		status   int
		document string
		reason   string
		logins   int // of three calls, each after the pause
	}{
		"forbidden":                        {http.StatusForbidden, `{}`, credentials, 2},
		"forbidden, and the URI":           {http.StatusForbidden, message("Base.1.8.ResourceAtUriUnauthorized"), credentials, 2},
		"forbidden, as there are too many": {http.StatusForbidden, message("Base.1.8.SessionLimitExceeded"), granted, 3},
		"forbidden to the account":         {http.StatusForbidden, message("Base.1.8.InsufficientPrivilege"), granted, 3},
		"a bad request, and an attempt":    {http.StatusBadRequest, message("iLO.2.14.UnauthorizedLoginAttempt"), credentials, 2},
		"a bad request":                    {http.StatusBadRequest, message("Base.1.8.PropertyMissing"), granted, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			now := time.Now()
			d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
			defer func() { _ = d.Close(context.Background()) }()
			var logins atomic.Int64
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Sessions") {
					logins.Add(1)
					said(w, test.status, test.document)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			m.info(map[string]any{"redfish_auth_type": "session"})
			if first := read(t, d, m.node); first == nil || !strings.Contains(first.Reason, test.reason) || !first.Retryable {
				t.Errorf("first try: %v, want a temporary failure, that the BMC %s", first, test.reason)
			}
			for range 2 {
				now = now.Add(2 * time.Minute)
				_ = read(t, d, m.node)
			}
			if got := int(logins.Load()); got != test.logins {
				t.Errorf("the credentials were sent %d times by three calls, want %d", got, test.logins)
			}
		})
	}
}

func TestBMCWithoutBasicAuthenticationIsAskedForASessionAgain(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusNotFound, http.StatusInternalServerError} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			now, busy := time.Now(), false
			d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
			defer func() { _ = d.Close(context.Background()) }()
			sent := 0 // with basic authentication
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				_, _, given := r.BasicAuth()
				switch {
				case given:
					sent++
					said(w, http.StatusUnauthorized, `{}`)
				case busy && r.Method == http.MethodPost:
					said(w, status, `{}`)
				case busy && r.Header.Get("X-Auth-Token") != "":
					said(w, http.StatusUnauthorized, `{}`) // the session has ended
				default:
					bmc.ServeHTTP(w, r)
				}
			})
			for i, busyNow := range []bool{false, true, true, true, false, true, false} {
				busy = busyNow
				failure := read(t, d, m.node)
				tells := "grants no session"
				if i == 3 && status != http.StatusServiceUnavailable { // it may have refused the credentials
					tells = "tried again after pauses"
				}
				if (failure != nil) != busy || busy && (!failure.Retryable || !strings.Contains(failure.Reason, tells)) {
					t.Errorf("read %d: %v, want a temporary failure that tells of the login: %t", i, failure, busy)
				}
				now = now.Add(time.Minute)
				if i == 3 {
					now = now.Add(20 * time.Minute)
				}
			}
			if sent != 2 {
				t.Errorf("basic authentication was tried %d times, want once after each session", sent)
			}
		})
	}
}

func TestLoginThatIsNotGrantedTellsNothingAboutWhatIsRead(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusInternalServerError} {
		m, d := newMachine(t, "dell")
		m.info(map[string]any{"redfish_auth_type": "session"})
		busy := false
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			switch {
			case busy && r.Method == http.MethodPost:
				said(w, status, `{}`)
			case busy && r.Header.Get("X-Auth-Token") != "":
				said(w, http.StatusUnauthorized, `{}`) // the session has ended
			default:
				bmc.ServeHTTP(w, r)
			}
		})
		if failure := read(t, d, m.node); failure != nil {
			t.Fatal(failure)
		}
		busy = true
		_, err := d.Interfaces()[node.InspectInterface].(driver.InventoryReader).ReadInventory(t.Context(), m.node)
		var failure *node.DriverError
		if !errors.As(err, &failure) || !failure.Retryable || !strings.Contains(failure.Reason, "grants no session") {
			t.Errorf("%d: %v, want a temporary failure that tells of the login", status, err)
		}
	}
}

func TestBMCThatForbidsSessionsIsReadWithBasicAuthentication(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/Sessions") {
			said(w, http.StatusForbidden, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	if failure := read(t, d, m.node); failure != nil {
		t.Errorf("with redfish_auth_type auto: %v", failure)
	}
}

func TestReadThatIsForbiddenAsTheLoginWasCountsAsRefusedCredentials(t *testing.T) {
	const noPrivilege = `{"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.InsufficientPrivilege"}]}}`
	for name, test := range map[string]struct {
		document string // with which reads are forbidden
		allows   int    // reads with the credentials before that
		session  bool   // which the BMC has granted before
		sent     int    // requests with the credentials by three calls, each after the pause
	}{
		"the first one":         {`{}`, 0, false, 2},
		"without the privilege": {noPrivilege, 0, false, 3},
		"one after others":      {`{}`, 1, false, 4},
		"after a session":       {`{}`, 0, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newMachine(t, "dell")
			now := time.Now()
			d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
			defer func() { _ = d.Close(context.Background()) }()
			sent, grants := 0, test.session
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				_, _, given := r.BasicAuth()
				if given {
					sent++
				}
				switch {
				case grants:
					bmc.ServeHTTP(w, r)
				case r.Method == http.MethodPost:
					said(w, http.StatusForbidden, `{}`)
				case r.Header.Get("X-Auth-Token") != "":
					said(w, http.StatusUnauthorized, `{}`)
				case given && sent > test.allows:
					said(w, http.StatusForbidden, test.document)
				default:
					bmc.ServeHTTP(w, r)
				}
			})
			if grants {
				if failure := read(t, d, m.node); failure != nil {
					t.Fatal(failure)
				}
				grants = false
			}
			for i := range 3 {
				failure := read(t, d, m.node)
				if failure == nil || test.sent == 2 && (!failure.Retryable || !strings.Contains(failure.Reason, "the user name")) {
					t.Errorf("call %d: %v", i, failure)
				}
				now = now.Add(2 * time.Minute)
			}
			if sent != test.sent {
				t.Errorf("the credentials were sent %d times after the login, want %d", sent, test.sent)
			}
		})
	}
}

func TestBMCWithoutSessionsIsNotAskedForOne(t *testing.T) {
	m, _ := newMachine(t, "dell")
	now := time.Now()
	d := redfish.New(redfish.Options{Clock: func() time.Time { return now }, RefusalPause: time.Minute})
	defer func() { _ = d.Close(context.Background()) }()
	var sent, logins int
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		_, _, given := r.BasicAuth()
		switch {
		case strings.TrimRight(r.URL.Path, "/") == "/redfish/v1":
			said(w, http.StatusOK, `{"@odata.id": "/redfish/v1", "Systems": {"@odata.id": "/redfish/v1/Systems"}}`)
			return
		case r.Method == http.MethodPost:
			logins++
		case given:
			sent++
		}
		if !given { // whatever is asked
			said(w, http.StatusUnauthorized, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	if failure := read(t, d, m.node); failure != nil || logins != 0 || sent == 0 {
		t.Errorf("failure = %v after %d logins, want none after none", failure, logins)
	}
	sent = 0
	m.info(map[string]any{"redfish_password": "not-this-one"})
	for range 3 {
		if failure := read(t, d, m.node); failure == nil {
			t.Error("the BMC was read with a wrong password")
		}
		now = now.Add(2 * time.Minute)
	}
	if sent != 2 || logins != 0 {
		t.Errorf("the wrong credentials were sent %d times, and with %d logins, want 2 and none", sent, logins)
	}
}

func TestCertificateIsVerifiedUnlessTheNodeSaysOtherwise(t *testing.T) {
	m, d := newMachine(t, "hpe")
	right := m.node.DriverInfo.Text("redfish_verify_ca")
	m.info(map[string]any{"redfish_verify_ca": true})
	if failure := read(t, d, m.node); failure == nil || failure.Retryable || !failure.Refused || !strings.Contains(failure.Reason, "set redfish_verify_ca") {
		t.Errorf("an unknown authority: %v, want a final refusal that names the key", failure)
	}
	for _, value := range []any{false, "false", right} {
		m.info(map[string]any{"redfish_verify_ca": value})
		if failure := read(t, d, m.node); failure != nil {
			t.Errorf("redfish_verify_ca %v: %v", value, failure)
		}
	}
	m.info(map[string]any{"redfish_verify_ca": "/nowhere/ca.pem"})
	if failure := read(t, d, m.node); failure == nil || !strings.Contains(failure.Reason, "/nowhere/ca.pem") {
		t.Errorf("a file that is not there: %v, want its name", failure)
	}
}

func TestOldBMCsAreReachedWithTLSThatTheyHave(t *testing.T) {
	for name, test := range map[string]struct {
		config *tls.Config
		want   string // part of the failure; empty for none
	}{
		"keys are exchanged by RSA only": {&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_CBC_SHA}}, ""},
		"no version after 1.1":           {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "update the firmware of the BMC"},
	} {
		bmc := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"@odata.id": "/redfish/v1/Systems/1", "PowerState": "On", "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}`)
		}))
		bmc.TLS = test.config
		bmc.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // it refuses a client
		bmc.StartTLS()
		d := redfish.New(redfish.Options{})
		n := &node.Node{UUID: "n", DriverInfo: node.ObjectOf(map[string]any{
			"redfish_address": bmc.URL, "redfish_username": "u", "redfish_password": "p", "redfish_auth_type": "basic", "redfish_verify_ca": false,
		})}
		failure := read(t, d, n)
		if failed := failure != nil; failed != (test.want != "") || failed && !strings.Contains(failure.Reason, test.want) {
			t.Errorf("%s: failure = %v, want %q", name, failure, test.want)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
		bmc.Close()
	}
}

func TestCredentialsGoToNoOtherServer(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer other.Close()
	bmc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer bmc.Close()
	d := redfish.New(redfish.Options{})
	n := &node.Node{UUID: "n", DriverInfo: node.ObjectOf(map[string]any{
		"redfish_address": bmc.URL, "redfish_username": "u", "redfish_password": "secret-word", "redfish_auth_type": "basic",
	})}
	if failure := read(t, d, n); failure == nil || !strings.Contains(failure.Reason, "redirects to another server") || got != nil {
		t.Errorf("failure = %v, the other server got %v, want nothing", failure, got)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// withoutLocation drops the header that names a new session, as some BMCs do.
type withoutLocation struct{ http.ResponseWriter }

func (w withoutLocation) WriteHeader(status int) {
	w.Header().Del("Location")
	w.ResponseWriter.WriteHeader(status)
}

func TestSessionWithoutALocationIsGivenBack(t *testing.T) {
	m, d := newMachine(t, "dell")
	var ended []string
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodDelete {
			ended = append(ended, r.URL.Path)
		}
		bmc.ServeHTTP(withoutLocation{w}, r)
	})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(ended) != 1 || !strings.Contains(ended[0], "/Sessions/") {
		t.Errorf("deleted %q, want the session", ended)
	}
}
