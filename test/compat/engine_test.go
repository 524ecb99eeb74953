//go:build compat

// Package compat_test tests Ingot with the programs that use its API: the published Go client of
// the Bare Metal API with its own acceptance tests, Debian's command line client, and a recorded
// ramdisk agent. The engine is real, on its own port and data folder. It also tests the simulated
// BMCs with sushy, the Redfish library of Ironic.
package compat_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
)

// serveEngine runs an engine until the test ends. The engine enrols unknown machines as fake
// hardware, and accepts agents without TLS. It returns the URL.
func serveEngine(t *testing.T) string {
	t.Helper()
	return serveEngineWith(t, func(cfg *engine.Config) {
		cfg.Agent.RequireTLS = false
		cfg.Agent.VerifyCallbackAddress = false
		cfg.AutoDiscovery.Enabled = true
		cfg.AutoDiscovery.Driver = "fake-hardware"
	})
}

// serveEngineWith runs an engine on a port and a data folder of its own until the test ends.
// configure changes other defaults as the test needs it. It returns the URL.
func serveEngineWith(t *testing.T, configure func(*engine.Config)) string {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.API.Listen = "127.0.0.1:0"
	cfg.Database.Dir = t.TempDir()
	cfg.Conductor.Hostname = "conductor.example.org"
	configure(&cfg)
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("start engine: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop engine: %v", err)
		}
	})
	return e.URL()
}
