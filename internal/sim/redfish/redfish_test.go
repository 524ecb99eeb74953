package redfish_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// connect logs in with a session.
func connect(t *testing.T, s *redfishtest.Server) *gofish.APIClient {
	t.Helper()
	client, err := tryConnect(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func tryConnect(t *testing.T, s *redfishtest.Server) (*gofish.APIClient, error) {
	t.Helper()
	return gofish.ConnectContext(t.Context(), gofish.ClientConfig{
		Endpoint: s.URL, Username: redfishtest.User, Password: redfishtest.Password, HTTPClient: s.Client(), ReuseConnections: true,
	})
}

// system finds the only system.
func system(t *testing.T, client *gofish.APIClient) *schemas.ComputerSystem {
	t.Helper()
	systems, err := client.Service.Systems()
	if err != nil || len(systems) != 1 {
		t.Fatalf("systems: %d, %v, want one", len(systems), err)
	}
	return systems[0]
}

// statusOf is the status that gofish got.
func statusOf(err error) int {
	var failure *schemas.Error
	if errors.As(err, &failure) {
		return failure.HTTPReturnedStatusCode
	}
	return 0
}

// call makes a request of its own, with basic authentication.
func call(t *testing.T, s *redfishtest.Server, method, path, body string, headers ...string) (status int, text string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(redfishtest.User, redfishtest.Password)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read), response.Header
}

func TestPowerChangesTakeTheirTime(t *testing.T) {
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor, redfishtest.Options{Times: bmc.Times{PowerOn: 3 * time.Second, PowerOff: 4 * time.Second, Shutdown: 30 * time.Second}})
			client := connect(t, s)
			for _, change := range []struct {
				reset         schemas.ResetType
				after         time.Duration
				before, final schemas.PowerState
			}{
				{schemas.OnResetType, 3 * time.Second, schemas.PoweringOnPowerState, schemas.OnPowerState},
				{schemas.GracefulShutdownResetType, 30 * time.Second, schemas.OnPowerState, schemas.OffPowerState},
				{schemas.OnResetType, 3 * time.Second, schemas.PoweringOnPowerState, schemas.OnPowerState},
				{schemas.ForceOffResetType, 4 * time.Second, schemas.PoweringOffPowerState, schemas.OffPowerState},
			} {
				if _, err := system(t, client).Reset(change.reset); err != nil {
					t.Fatalf("%s: %v", change.reset, err)
				}
				s.Pass(change.after - time.Second)
				if got := system(t, client).PowerState; got != change.before {
					t.Errorf("%s: power state %s too early, want %s", change.reset, got, change.before)
				}
				s.Pass(time.Second)
				if got := system(t, client).PowerState; got != change.final {
					t.Errorf("%s: power state %s, want %s", change.reset, got, change.final)
				}
			}
			if got := strings.Join(s.Effects(), ", "); got != "power on, soft power off, power on, power off" {
				t.Errorf("effects: %s", got)
			}
		})
	}
}

func TestPowerOnOfAMachineThatIsOnIsAnsweredAsTheVendorDoes(t *testing.T) {
	want := map[string]struct {
		status int
		text   string
	}{
		"dell": {409, "IDRAC.2.8.PSU501"}, "hpe": {400, "iLO.2.14.InvalidOperationForSystemState"}, "supermicro": {204, ""},
	}
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			target := "/redfish/v1/Systems/" + map[string]string{"dell": "System.Embedded.1"}[vendor]
			if vendor != "dell" {
				target += "1"
			}
			call(t, s, "POST", target+"/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`)
			status, text, _ := call(t, s, "POST", target+"/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`)
			if status != want[vendor].status || !strings.Contains(text, want[vendor].text) {
				t.Errorf("status %d, %s; want %d with %q", status, text, want[vendor].status, want[vendor].text)
			}
		})
	}
}

func TestLocationHasTheFormOfTheVendor(t *testing.T) {
	for vendor, form := range map[string]string{
		"dell": "/redfish/v1/SessionService/Sessions/1", "hpe": "URL/redfish/v1/SessionService/Sessions/1/",
		"supermicro": "/redfish/v1/SessionService/Sessions/1",
	} {
		s := redfishtest.Start(t, vendor)
		login := `{"UserName":"` + redfishtest.User + `","Password":"` + redfishtest.Password + `"}`
		status, _, header := call(t, s, "POST", "/redfish/v1/SessionService/Sessions", login)
		if want := strings.Replace(form, "URL", s.URL, 1); status != 201 || header.Get("Location") != want || header.Get("X-Auth-Token") == "" {
			t.Errorf("%s: status %d, %v, want the location %s", vendor, status, header, want)
		}
		if status, _, _ := call(t, s, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"operator","Password":"guess"}`); status != 401 {
			t.Errorf("%s: status %d for a wrong password", vendor, status)
		}
	}
}

func TestRegistryOfHPEIsCompressedForEverybody(t *testing.T) {
	s := redfishtest.Start(t, "hpe")
	const path = "/redfish/v1/registrystore/registries/en/biosattributeregistryu32.v1_2_68"
	_, text, header := call(t, s, "GET", path, "", "Accept-Encoding", "identity")
	if header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(text, "\x1f\x8b") {
		t.Errorf("encoding %q, text %.20q", header.Get("Content-Encoding"), text)
	}
}

func TestSessionsAreLimitedAndExpire(t *testing.T) {
	status := map[string]int{"dell": 503, "hpe": 400, "supermicro": 503}
	for _, vendor := range redfish.Vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			s := redfishtest.Start(t, vendor)
			first := connect(t, s)
			for range redfish.MaxSessions - 1 {
				connect(t, s)
			}
			if _, err := tryConnect(t, s); statusOf(err) != status[vendor] {
				t.Errorf("session too many: %v, want status %d", err, status[vendor])
			}
			s.Pass(redfish.SessionTimeout)
			if _, err := first.Get("/redfish/v1/Systems"); statusOf(err) != 401 {
				t.Errorf("session after its time: %v, want status 401", err)
			}
			again := connect(t, s)
			again.Logout()
		})
	}
}
