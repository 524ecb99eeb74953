package story

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/loopbacktest"
)

// TestMachineWhoseHeartbeatsAreRefusedSaysSo has a ramdisk that serves plain HTTP. The engine does
// not accept that until a person changes agent.require_tls.
func TestMachineWhoseHeartbeatsAreRefusedSaysSo(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	cfg := engine.DefaultConfig()
	cfg.API.Listen, cfg.Database.Dir, cfg.Conductor.Hostname = "127.0.0.1:0", t.TempDir(), "engine-under-test"
	cfg.Agent.VerifyCallbackAddress = false
	cfg.AutoDiscovery.Enabled, cfg.AutoDiscovery.Driver = true, "manual-management"
	run := func() *engine.Engine {
		e, err := engine.Start(t.Context(), engine.Options{
			Config: cfg, Logger: slog.New(slog.DiscardHandler),
			Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	stop := func(e *engine.Engine) {
		if err := e.Stop(context.Background()); err != nil {
			t.Errorf("stop the engine: %v", err)
		}
	}
	e := run()
	r := &rack{address: strings.TrimPrefix(e.URL(), "http://")}
	machines, err := sim.New(sim.Options{
		Engine: e.URL(), Machines: 1, Hardware: hardware.Options{Kind: hardware.Server}, PlainHTTP: true,
		Network: loopbacktest.Network(t), Inventory: provisioning, Clock: agent.Accelerated(20),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machines.Stop)
	if err := machines.Machine(0).PowerOn(); err != nil {
		t.Fatal(err)
	}
	// shown waits until the node contains a text.
	shown := func(uuid, want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			_, body := r.get(t, "/v1/nodes/"+uuid)
			if !strings.Contains(string(body), want) {
				return fmt.Errorf("node %s does not show %q", body, want)
			}
			return nil
		})
	}
	eventually(t, func(context.Context) error {
		if len(r.discovered(t)) == 0 {
			return errors.New("the machine is not enrolled")
		}
		return nil
	})
	uuid := r.discovered(t)[0].UUID
	shown(uuid, `"reason":"plain-http"`)
	ahead.Add(int64(cfg.Agent.HeartbeatTimeout + time.Minute)) // the inspection does not count any more
	if status, body := r.call(t, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", []byte(`{"target":"manage"}`), "1.95"); status != http.StatusAccepted {
		t.Fatalf("manage: %d %s", status, body)
	}
	shown(uuid, "or set agent.require_tls to false")

	stop(e)
	cfg.API.Listen, cfg.Agent.RequireTLS = r.address, false
	e = run()
	t.Cleanup(func() { stop(e) })
	shown(uuid, `"agent_last_heartbeat"`)
	if _, body := r.get(t, "/v1/nodes/"+uuid); strings.Contains(string(body), "heartbeat_refusals") {
		t.Errorf("the node still shows refusals: %s", body)
	}
}
