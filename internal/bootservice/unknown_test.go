package bootservice_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/firmware"
)

// TestScriptOfThePageBootsKnownAndUnknownMachines runs the script from docs/discovery.md that lets
// one DHCP server serve both. Machines that have something to boot from the engine boot that. All
// others boot the ramdisk that discovers them.
func TestScriptOfThePageBootsKnownAndUnknownMachines(t *testing.T) {
	page, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```text\n(#!ipxe.*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("the page has no script")
	}
	s := newTestService(t)
	s.register("52:54:00:00:00:01", s.network())
	s.register("52:54:00:00:00:02", nil)
	away := false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/discover.ipxe":
			_, _ = w.Write([]byte(strings.NewReplacer("192.0.2.1:6386", "boot.example:6386").Replace(string(script[1]))))
		case r.Host == "boot.example:6386" && !away:
			s.service.ServeHTTP(w, r)
		case r.Host == "192.0.2.1:8080":
			_, _ = w.Write([]byte("an image"))
		default:
			http.Error(w, "nobody answers", http.StatusBadGateway)
		}
	}))
	t.Cleanup(web.Close)
	client := &http.Client{Transport: sendingTo(web.Listener.Addr().String())}
	loader := firmware.NewLoader(client, func(context.Context, time.Duration) error { return nil })
	boots := func(mac string) (firmware.Result, string) {
		trace := new(firmware.Trace)
		result := loader.Script(t.Context(), "http://192.0.2.1:8080/discover.ipxe", firmware.Identity{MAC: mac, Architecture: "x86_64", UEFI: true}, trace)
		return result, strings.Join(trace.Lines(), "\n")
	}
	for name, tc := range map[string]struct {
		mac       string
		away      bool
		discovers bool
	}{
		"with a boot":                      {"52:54:00:00:00:01", false, false},
		"known, with nothing to boot":      {"52:54:00:00:00:02", false, true},
		"unknown":                          {"52:54:00:00:00:ff", false, true},
		"while the engine does not answer": {"52:54:00:00:00:01", true, true},
	} {
		away = tc.away
		result, trace := boots(tc.mac)
		_, discovers := result.Parameters["ipa-inspection-callback-url"]
		if result.Action != firmware.StartKernel || discovers != tc.discovers {
			t.Errorf("%s: %+v, want a ramdisk that discovers: %v\n%s", name, result, tc.discovers, trace)
		}
		if want := "01-" + strings.ReplaceAll(tc.mac, ":", "-"); result.Parameters["BOOTIF"] != want {
			t.Errorf("%s: BOOTIF is %q, want %q", name, result.Parameters["BOOTIF"], want)
		}
	}
}

// sendingTo sends all requests to one address, with the hosts that they name.
type sendingTo string

func (to sendingTo) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = r.URL.Host, string(to)
	return http.DefaultTransport.RoundTrip(r)
}
