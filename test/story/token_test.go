package story

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

// TestWhoKnowsAMachineCannotLockItsAgentOut lets an attacker use the protocol with the addresses of
// a machine whose heartbeats have been lost for longer than the window. The agent lives, and the
// engine calls it at its address, with its certificate. When the machine is switched on again, its
// ramdisk gets a token of its own.
func TestWhoKnowsAMachineCannotLockItsAgentOut(t *testing.T) {
	t.Parallel()
	const window = 5 * time.Minute
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	cfg := engine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir, cfg.Conductor.Hostname = "127.0.0.1:0", t.TempDir(), "engine-under-test"
	cfg.Agent.HeartbeatTimeout, cfg.Agent.VerifyCallbackAddress = window, false
	cfg.AutoDiscovery.Enabled, cfg.AutoDiscovery.Driver = true, "manual-management"
	e, err := engine.Start(t.Context(), engine.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Errorf("stop the engine: %v", err)
		}
	})
	machines, err := sim.New(sim.Options{
		Engine: e.URL(), Machines: 1, Hardware: hardware.Options{Kind: hardware.Server},
		Network: loopbacktest.Network(t), Inventory: provisioning,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machines.Stop)
	m := machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	heartbeats := func(want int) {
		eventually(t, func(context.Context) error {
			if got := m.Answers(sim.Answer{Call: "heartbeat", Status: http.StatusAccepted}); got < want {
				return fmt.Errorf("%d heartbeats were accepted, want %d", got, want)
			}
			return nil
		})
	}
	heartbeats(1)
	r := &rack{address: strings.TrimPrefix(e.URL(), "http://")}
	uuid := r.discovered(t)[0].UUID
	look := func(want int) {
		t.Helper()
		if status, body := r.call(t, http.MethodGet, "/v1/lookup?node_uuid="+uuid, nil, "1.62"); status != want {
			t.Errorf("lookup: %d %s, want %d", status, body, want)
		}
	}
	replaced := func() bool {
		_, body := r.get(t, "/v1/nodes/"+uuid+"/history")
		return strings.Contains(string(body), "got a new agent token, and the old one is void")
	}

	ahead.Add(int64(window + time.Minute))
	for range 3 {
		if status, body := r.call(t, http.MethodPost, "/v1/continue_inspection", m.Document(), ""); status != http.StatusNotFound {
			t.Errorf("post: %d %s, want 404", status, body)
		}
		look(http.StatusConflict)
	}
	if replaced() {
		t.Error("the token of an agent that lives was replaced")
	}

	m.PowerOff()
	ahead.Add(int64(2 * time.Minute)) // after this time the answer of the agent no longer counts
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	heartbeats(2)
	if !replaced() {
		t.Error("the history has no row about the new token")
	}
	look(http.StatusConflict)
}
