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
	"path"
	"slices"
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
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, proxy) }))
	m.t.Cleanup(server.Close)
	m.info(map[string]any{"redfish_address": server.URL, "redfish_verify_ca": false})
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
	const members, size = 200, 1<<20 - 1<<10
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

// biosOf, firmwareOf and mediaOf count what the driver reads of the BIOS settings that the
// registry describes, of the firmware components with one prefix, and of the virtual devices.
func biosOf(ctx context.Context, d redfish.Driver, n *node.Node) (int, error) {
	facts, err := d.BIOSFacts(ctx, n)
	return facts.Described, err
}

func firmwareOf(prefix string) func(context.Context, redfish.Driver, *node.Node) (int, error) {
	return func(ctx context.Context, d redfish.Driver, n *node.Node) (int, error) {
		components, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(ctx, n)
		return len(slices.DeleteFunc(components, func(c node.FirmwareComponent) bool { return !strings.HasPrefix(c.Component, prefix) })), err
	}
}

func mediaOf(ctx context.Context, d redfish.Driver, n *node.Node) (int, error) {
	slots, err := d.SlotFacts(ctx, n)
	return len(slots), err
}

func TestBMCThatAnswersWithNothingEndsNoProcess(t *testing.T) {
	for name, test := range map[string]struct {
		pattern string
		count   func(context.Context, redfish.Driver, *node.Node) (int, error)
	}{
		"registries":       {"/redfish/v1/Registries", biosOf},
		"a registry file":  {"/redfish/v1/Registries/*", biosOf},
		"a registry":       {"/redfish/v1/Systems/*/Bios/BiosRegistry", biosOf},
		"virtual media":    {"/redfish/v1/*/*/VirtualMedia", mediaOf},
		"managers":         {"/redfish/v1/Managers/*", firmwareOf("bmc")},
		"chassis":          {"/redfish/v1/Chassis/*", firmwareOf("nic:")},
		"network adapters": {"/redfish/v1/Chassis/*/NetworkAdapters", firmwareOf("nic:")},
	} {
		for kind, answer := range map[string]string{
			"null": `null`, "null as a member": `{"Members": [null, {}]}`, "null as a later page": `{"Members": [], "Members@odata.nextLink": "%s?later"}`,
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				m, d := newMachine(t, "dell")
				if count, err := test.count(t.Context(), d, m.node); err != nil || count == 0 {
					t.Fatalf("%d, %v, want some", count, err)
				}
				var asked atomic.Int64
				m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
					matched, _ := path.Match(test.pattern, strings.TrimRight(r.URL.Path, "/"))
					switch {
					case !matched:
						bmc.ServeHTTP(w, r)
					case r.URL.RawQuery != "":
						said(w, http.StatusOK, `null`)
					default:
						asked.Add(1)
						said(w, http.StatusOK, strings.Replace(answer, "%s", r.URL.Path, 1))
					}
				})
				if count, err := test.count(t.Context(), d, m.node); count != 0 || asked.Load() == 0 {
					t.Errorf("%d, %v of %d answers, want none", count, err, asked.Load())
				}
			})
		}
	}
}

func TestListOfTooManyMembersIsRefused(t *testing.T) {
	const most = 10_000
	for name, answers := range map[string]map[string]string{
		"a collection": {"/redfish/v1/Chassis/*/NetworkAdapters": `{"Members": [` + strings.Repeat(`{},`, most) + `{}]}`},
		"its pages": {"/redfish/v1/Chassis/*/NetworkAdapters": `{
			"Members": [` + strings.Repeat(`{},`, 200) + `{}], "Members@odata.nextLink": "/redfish/v1/Chassis/1/NetworkAdapters"}`},
		"links": {"/redfish/v1/Systems/*": `{"Links": {"Chassis": [` + strings.Repeat(`{},`, most) + `{}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				for pattern, answer := range answers {
					if matched, _ := path.Match(pattern, strings.TrimRight(r.URL.Path, "/")); matched {
						said(w, http.StatusOK, answer)
						return
					}
				}
				bmc.ServeHTTP(w, r)
			})
			if _, err := firmwareOf("nic:")(t.Context(), d, m.node); err == nil || !strings.Contains(err.Error(), "more than 10000 members") {
				t.Errorf("error = %v, want one that names the bound", err)
			}
		})
	}
}

func TestDocumentOfMoreThanAMebibyteIsRefused(t *testing.T) {
	const most = 1 << 20
	for size, refusal := range map[int]string{most: "", most + 1: "the answer is too large: it has more than 1048576 bytes"} {
		m, d := newMachine(t, "dell")
		document := `{"PowerState": "On", "Description": "`
		document += strings.Repeat("x", size-len(document)-len(`"}`)) + `"}`
		m.without("/Systems/System.Embedded.1", http.StatusOK, document)
		failure := read(t, d, m.node)
		if refusal == "" && failure != nil || refusal != "" && (failure == nil || !strings.Contains(failure.Reason, refusal)) {
			t.Errorf("%d bytes: %v, want %q", size, failure, refusal)
		}
	}
}

func TestLargeAttributeRegistryIsReadToItsBounds(t *testing.T) {
	for name, test := range map[string]struct{ instead, refusal string }{
		"2 MiB":               {`"Description": "` + strings.Repeat("x", 2<<20) + `", "RegistryEntries":`, ""},
		"more than 16 MiB":    {`"Description": "` + strings.Repeat("x", 16<<20) + `", "RegistryEntries":`, "it has more than 16777216 bytes"},
		"too many attributes": {`"RegistryEntries": {"Attributes": [` + strings.Repeat(`{},`, 10_000) + `{}]}, "Elsewhere":`, "it has more than 10000 attributes"},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if !strings.HasSuffix(r.URL.Path, "/BiosRegistry") {
					bmc.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				bmc.ServeHTTP(answer, r)
				said(w, answer.Code, strings.Replace(answer.Body.String(), `"RegistryEntries":`, test.instead, 1))
			})
			facts, err := d.BIOSFacts(t.Context(), m.node)
			if err != nil || !strings.Contains(facts.RegistryError, test.refusal) || (facts.RegistryError == "") != (test.refusal == "") || (facts.Described == facts.Attributes) != (test.refusal == "") {
				t.Errorf("%+v, %v, want %q", facts, err, test.refusal)
			}
		})
	}
}

func TestRegistryIsFoundByItsLinkOrItsFile(t *testing.T) {
	const own, folder = "BiosAttributeRegistry.v1_0_0", "/redfish/v1/Registries/"
	for name, test := range map[string]struct {
		link  string
		asked int64
	}{
		"a link with its name":             {own, 1},
		"one without its version":          {"biosattributeregistry/", 1},
		"one without, after 40 unreadable": {"41", 41},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			var asked atomic.Int64
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				switch r.URL.Path {
				case strings.TrimSuffix(folder, "/"):
					var links []string
					for i := range 40 {
						links = append(links, fmt.Sprintf(`{"@odata.id": "%s%d"}`, folder, i))
					}
					said(w, http.StatusOK, `{"Members": [`+strings.Join(append(links, `{"@odata.id": "`+folder+test.link+`"}`), ",")+`]}`)
				case folder + test.link:
					asked.Add(1)
					r.URL.Path = folder + own
					bmc.ServeHTTP(w, r)
				default:
					if strings.HasPrefix(r.URL.Path, folder) {
						asked.Add(1)
						said(w, http.StatusInternalServerError, `{}`)
						return
					}
					bmc.ServeHTTP(w, r)
				}
			})
			facts, err := d.BIOSFacts(t.Context(), m.node)
			if err != nil || facts.Described == 0 || asked.Load() != test.asked {
				t.Errorf("%+v, %v, %d files were read, want %d", facts, err, asked.Load(), test.asked)
			}
		})
	}
}

func TestCallThatEndsReadsNoMoreRegistryFiles(t *testing.T) {
	m, d := newMachine(t, "dell")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int64
	m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
		switch folder, id, _ := strings.Cut(r.URL.Path, "/Registries"); {
		case folder != "/redfish/v1":
			bmc.ServeHTTP(w, r)
		case id == "":
			said(w, http.StatusOK, `{"Members": [{"@odata.id": "/redfish/v1/Registries/1"}, {"@odata.id": "/redfish/v1/Registries/2"}]}`)
		default:
			asked.Add(1)
			cancel()
			<-r.Context().Done()
		}
	})
	settings, err := d.Interfaces()[node.BIOSInterface].(driver.BIOS).BIOSSettings(ctx, m.node)
	if err == nil || len(settings) != 0 || asked.Load() != 1 {
		t.Errorf("%d settings, %v after %d files, want an error after one", len(settings), err, asked.Load())
	}
}
