package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
)

// startEngine runs an engine until the test ends and makes OS_ENDPOINT point
// to it.
func startEngine(t *testing.T) {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir = "127.0.0.1:0", t.TempDir()
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("stop engine: %v", err)
		}
	})
	t.Setenv("OS_ENDPOINT", e.URL())
}

func TestClientWalksANodeOfARealEngine(t *testing.T) {
	startEngine(t)
	for _, step := range []struct{ args, out, progress string }{
		{"node create --driver fake-hardware --name n1 --uuid 11111111-2222-4333-8444-555555555555 -o name", "n1\n", ""},
		{"node set n1 --property cpu_arch=x86_64 --resource-class large --extra a=1", "Updated node n1\n", ""},
		{"node unset n1 --extra a", "Updated node n1\n", ""},
		{"node show n1 --fields properties,extra -o value", "{\"cpu_arch\":\"x86_64\"}\n{}\n", ""},
		{"port create 52:54:00:00:00:01 --node 11111111-2222-4333-8444-555555555555 --uuid 11111111-2222-4333-8444-666666666666 -o name", "11111111-2222-4333-8444-666666666666\n", ""},
		{"port list --node n1 -o value", "11111111-2222-4333-8444-666666666666 52:54:00:00:00:01\n", ""},
		{"node manage n1 --wait=20", "", "n1: manageable\n"},
		{"node power on n1 --wait=20", "", "n1: power on\n"},
		{"node trait add n1 CUSTOM_A", "Node n1: trait added CUSTOM_A\n", ""},
		{"node trait list n1 -o value", "CUSTOM_A\n", ""},
		{"node maintenance set n1 --reason fan", "Node n1: in maintenance\n", ""},
		{"node maintenance unset n1", "Node n1: out of maintenance\n", ""},
		{"node provide n1 --wait=20", "", "n1: available\n"},
		{"allocation create --name a1 --resource-class large --wait=20 -o name", "a1\n", ": active\n"},
		{"allocation delete a1", "Deleted allocation a1\n", ""},
		{"node list --provision-state available --resource-class large -o name", "n1\n", ""},
		{"port delete 11111111-2222-4333-8444-666666666666", "Deleted port 11111111-2222-4333-8444-666666666666\n", ""},
		{"node delete n1", "Deleted node n1\n", ""},
	} {
		out, stderr, code := clientRun(t, strings.Fields(step.args)...)
		if code != 0 || out != step.out || !strings.HasSuffix(stderr, step.progress) {
			t.Fatalf("%s: exit %d, printed %q and %q; want %q and %q", step.args, code, out, stderr, step.out, step.progress)
		}
	}
}
