package redfish_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

// behind puts a server between the driver and the BMC, for answers that no simulated BMC
// gives. It answers itself, or lets the BMC answer.
func (m *machine) behind(answer func(w http.ResponseWriter, r *http.Request, bmc http.Handler)) {
	m.t.Helper()
	target, err := url.Parse(m.URL)
	if err != nil {
		m.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: m.Client().Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, proxy) }))
	m.t.Cleanup(front.Close)
	m.info(map[string]any{"redfish_address": front.URL, "redfish_verify_ca": false})
}

// said answers with a document.
func said(w http.ResponseWriter, status int, document string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, document)
}

func TestLinksLeadToNoOtherServer(t *testing.T) {
	for _, auth := range []string{"basic", "session"} {
		t.Run(auth, func(t *testing.T) {
			var stolen atomic.Int64
			other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				stolen.Add(1)
				said(w, http.StatusOK, `{}`)
			}))
			defer other.Close()
			m, d := newMachine(t, "dell")
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if r.URL.Path == "/redfish/v1/Systems" {
					said(w, http.StatusOK, `{"Members": [{"@odata.id": "`+strings.Replace(other.URL, "https://", "@", 1)+`/redfish/v1/Systems/1"}]}`)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			m.info(map[string]any{"redfish_auth_type": auth})
			if failure := read(t, d, m.node); failure == nil || !strings.Contains(failure.Reason, "leads to another server") || stolen.Load() != 0 {
				t.Errorf("failure = %v, %d requests reached the other server, want none", failure, stolen.Load())
			}
		})
	}
}

func TestChangeThatIsRedirectedToAReadIsNotDone(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "Actions") {
			http.Redirect(w, r, "/redfish/v1", http.StatusFound)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	isOn(m)
	if _, err := d.InjectNMI(t.Context(), m.node, fresh); err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("error = %v, want one that names the redirect", err)
	}
}

func TestCloseGivesUpOnABMCThatHangs(t *testing.T) {
	m, _ := newMachine(t, "dell")
	end := make(chan struct{})
	defer close(end)
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if r.Method == http.MethodDelete {
			<-end
			return
		}
		bmc.ServeHTTP(w, r)
	})
	d := redfish.New(redfish.Options{})
	if failure := read(t, d, m.node); failure != nil {
		t.Fatal(failure)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = d.Close(ended)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("close does not end")
	}
}

func TestRefusalsOfCallsAtTheSameTimeCountOnce(t *testing.T) {
	m, _ := newMachine(t, "dell")
	var refuses atomic.Bool
	refuses.Store(true)
	arrived := make(chan struct{}, 2)
	both := make(chan struct{})
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if _, _, ok := r.BasicAuth(); ok && refuses.Load() {
			arrived <- struct{}{}
			<-both
			said(w, http.StatusUnauthorized, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	m.info(map[string]any{"redfish_auth_type": "basic"})
	var now atomic.Int64
	d := redfish.New(redfish.Options{Clock: func() time.Time { return time.Unix(now.Load(), 0) }, RefusalPause: time.Minute})
	defer func() { _ = d.Close(context.Background()) }()
	failures := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := d.PowerState(t.Context(), m.node)
			failures <- err
		}()
	}
	for range 2 {
		<-arrived
	}
	close(both)
	for range 2 {
		if err := <-failures; err == nil {
			t.Error("a refused call succeeded")
		}
	}
	refuses.Store(false)
	now.Store(120)
	if _, err := d.PowerState(t.Context(), m.node); err != nil {
		t.Errorf("after the pause: %v, want that the credentials are tried once more", err)
	}
}

func TestBMCThatRefusesEverySessionIsNotFilledWithThem(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/Systems/System.Embedded.1") {
			said(w, http.StatusUnauthorized, `{}`)
			return
		}
		bmc.ServeHTTP(w, r)
	})
	for range 5 {
		if failure := read(t, d, m.node); failure == nil {
			t.Fatal("the read succeeded")
		}
	}
	if got := sessions(t, m); got != 1 {
		t.Errorf("%d sessions after five refused calls, want one", got)
	}
}

func TestCollectionWithoutEndIsNotRead(t *testing.T) {
	m, d := newMachine(t, "dell")
	const members, size = 200, 1 << 20
	var asked atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		_, id, below := strings.Cut(r.URL.Path, "/NetworkAdapters")
		switch {
		case !below:
			bmc.ServeHTTP(w, r)
		case id == "":
			links := make([]string, members)
			for i := range links {
				links[i] = fmt.Sprintf(`{"@odata.id": "%s/%d"}`, r.URL.Path, i)
			}
			said(w, http.StatusOK, `{"Members": [`+strings.Join(links, ",")+`]}`)
		default:
			asked.Add(1)
			said(w, http.StatusOK, `{"@odata.id": "`+r.URL.Path+`", "Id": "x", "Description": "`+strings.Repeat("x", size)+`"}`)
		}
	})
	_, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(t.Context(), m.node)
	if err == nil || !strings.Contains(err.Error(), "answers to one call are larger") || asked.Load() > members/2 {
		t.Errorf("%v after %d members were read, want that the call ends at some", err, asked.Load())
	}
	if failure := read(t, d, m.node); failure != nil {
		t.Errorf("the next call: %v", failure)
	}
}
