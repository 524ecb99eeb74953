package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// logged is a test whose passes write a log.
type logged struct {
	testing.TB

	logger logr.Logger
}

func (l logged) Context() context.Context { return log.IntoContext(l.TB.Context(), l.logger) }

// newLoggedLife is newLife with a log, of which lines returns what was written since its last call.
func newLoggedLife(tb testing.TB) (l *life, lines func() []map[string]any) {
	tb.Helper()
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	return newLife(logged{tb, logr.FromSlogHandler(handler)}, nil), func() (all []map[string]any) {
		tb.Helper()
		for decoder := json.NewDecoder(&out); ; {
			var line map[string]any
			switch err := decoder.Decode(&line); {
			case errors.Is(err, io.EOF):
				return all
			case err != nil:
				tb.Fatal(err)
			}
			all = append(all, line)
		}
	}
}

func TestLogTellsTheStatesOfAHostAndForDebuggingItsOtherPasses(t *testing.T) {
	l, lines := newLoggedLife(t)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	var states []v1alpha1.ProvisioningState
	for _, line := range lines() {
		for _, key := range []string{"host", "provisioningState", "operationalStatus", "errorMessage", "requeueAfter"} {
			if _, there := line[key]; !there {
				t.Fatalf("line %v has no %s", line, key)
			}
		}
		if line["level"] == "INFO" {
			states = append(states, v1alpha1.ProvisioningState(line["provisioningState"].(string)))
		}
	}
	want := []v1alpha1.ProvisioningState{
		v1alpha1.StateRegistering, v1alpha1.StateInspecting, v1alpha1.StatePreparing,
		v1alpha1.StateProvisioning, v1alpha1.StateProvisioned,
	}
	if states = slices.Compact(states); !slices.Equal(states, want) {
		t.Errorf("states in the log: %q, want %q", states, want)
	}
	l.pass("web")
	if got := lines(); len(got) != 1 || got[0]["level"] != "DEBUG" {
		t.Errorf("log of an idle host: %v, want one line for debugging", got)
	}
}

// leaky is an engine that refuses to change the power, with a text that no log may have as it is.
type leaky struct{ *demo.Engine }

func (leaky) SetPower(context.Context, string, provisioner.PowerChange) error {
	return errors.New("POST https://root:calvin@192.0.2.9/redfish: \x1b[31mrefused")
}

func TestLogTellsTheErrorOfAHostOnceAndWithoutCredentials(t *testing.T) {
	l, lines := newLoggedLife(t)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	l.change = func(c *Config) { c.Engine = leaky{l.engine} }
	l.restart()
	lines()
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false })
	l.until("web", "in error again", func(h *v1alpha1.BareMetalHost) bool { return h.Status.ErrorCount > 2 })
	var told []string
	for _, line := range lines() {
		if line["level"] == "INFO" {
			told = append(told, line["errorMessage"].(string))
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "refused") || strings.ContainsAny(told[0], "\x1b") || strings.Contains(told[0], "calvin") {
		t.Errorf("errors in the log: %q, want one, without the password", told)
	}
}
