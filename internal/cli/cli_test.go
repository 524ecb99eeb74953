package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestBusyNodeIsAskedAgainAsOftenAsTheUserSays(t *testing.T) {
	for name, test := range map[string]struct {
		retries     int
		environment map[string]string
		timeout     time.Duration
		asked       int
	}{
		"nobody says":         {0, nil, 0, 1},
		"flag":                {2, map[string]string{"IRONIC_MAX_RETRIES": "5"}, 0, 3},
		"environment":         {0, map[string]string{"IRONIC_MAX_RETRIES": "1"}, 0, 2},
		"a shell that waits":  {2, nil, time.Second, 1},
		"interval of no time": {1, map[string]string{"IRONIC_RETRY_INTERVAL": "1ms"}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(http.StatusConflict)
			}))
			t.Cleanup(server.Close)
			connection := Connection{Endpoint: server.URL, Version: "1.84", Retries: test.retries}
			if test.environment["IRONIC_RETRY_INTERVAL"] == "" {
				connection.Interval = Wait{Asked: true, Timeout: time.Millisecond}
			}
			engine, err := connection.Client(func(name string) string { return test.environment[name] }, test.timeout)
			if err != nil {
				t.Fatal(err)
			}
			if err := Delete(t.Context(), engine, Nodes, []string{"n1"}, Streams{}); ExitCode(err) != ExitBusy || asked != test.asked {
				t.Errorf("%v after %d requests, want %d", err, asked, test.asked)
			}
		})
	}
}

func TestConnectionThatMakesNoSenseIsRefused(t *testing.T) {
	for variable, value := range map[string]string{
		"IRONIC_MAX_RETRIES": "many", "IRONIC_RETRY_INTERVAL": "-1", "OS_INSECURE": "perhaps", "OS_ENDPOINT": "here", "OS_BAREMETAL_API_VERSION": "2",
	} {
		_, err := Connection{}.Client(func(name string) string {
			if name == variable {
				return value
			}
			return ""
		}, 0)
		if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", variable, value, err)
		}
	}
	if _, err := (Connection{Retries: -1}).Client(func(string) string { return "" }, 0); ExitCode(err) != ExitUsage {
		t.Errorf("less than no retries: %v", err)
	}
}
