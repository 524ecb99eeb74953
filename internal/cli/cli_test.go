package cli

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/internal/ironic"
)

func TestBusyNodeIsAskedAgainAsOftenAsTheUserSays(t *testing.T) {
	for name, test := range map[string]struct {
		flag        string
		environment map[string]string
		timeout     time.Duration
		asked       int
	}{
		"nobody says":         {"", nil, 0, 1},
		"flag":                {"--max-retries=2", map[string]string{"IRONIC_MAX_RETRIES": "5"}, 0, 3},
		"flag for none":       {"--max-retries=0", map[string]string{"IRONIC_MAX_RETRIES": "5"}, 0, 1},
		"environment":         {"", map[string]string{"IRONIC_MAX_RETRIES": "1"}, 0, 2},
		"a shell that waits":  {"--max-retries=2", nil, time.Second, 1},
		"interval of no time": {"--max-retries=1", map[string]string{"IRONIC_RETRY_INTERVAL": "1ms"}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(http.StatusConflict)
			}))
			t.Cleanup(server.Close)
			connection := Connection{}
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			connection.AddFlags(flags)
			if err := flags.Parse([]string{"--os-endpoint=" + server.URL, "--os-baremetal-api-version=1.84", test.flag}); err != nil {
				t.Fatal(err)
			}
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

func TestCertificateIsVerifiedWhenTheFlagSaysSo(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of handshakes
	server.StartTLS()
	t.Cleanup(server.Close)
	for flag, verified := range map[string]bool{"--insecure": false, "--insecure=false": true, "": false} {
		connection := Connection{}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		connection.AddFlags(flags)
		if err := flags.Parse([]string{"--os-endpoint=" + server.URL, "--os-baremetal-api-version=1.84", flag}); err != nil {
			t.Fatal(err)
		}
		engine, err := connection.Client(func(name string) string { return map[string]string{"OS_INSECURE": "true"}[name] }, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Node(t.Context(), "n1"); errors.Is(err, ironic.ErrUnreachable) != verified {
			t.Errorf("%q: %v, want the certificate to be refused: %t", flag, err, verified)
		}
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
