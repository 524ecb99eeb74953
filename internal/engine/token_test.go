package engine_test

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// TestWhoKnowsAMachineCannotLockItsAgentOut has somebody take part in the protocol with
// the addresses of a machine whose heartbeats have been lost for longer than the window:
// the agent lives, and is called at its address and by its certificate. When its machine
// is switched on anew, the ramdisk gets a token of its own.
func TestWhoKnowsAMachineCannotLockItsAgentOut(t *testing.T) {
	const window = 5 * time.Minute
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	e, err := tryStartAt(t, clock, t.TempDir(), func(c *engine.Config) {
		c.Agent.RequireTLS, c.Agent.HeartbeatTimeout = true, window
		c.AutoDiscovery.Driver = "manual-management"
	})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := sim.New(sim.Options{
		Engine: e.URL(), Machines: 1, Hardware: hardware.Options{Kind: hardware.Server},
		Network:   netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(192 + os.Getpid()%32), byte(os.Getpid() / 32), 0}), 24),
		Inventory: netip.MustParsePrefix("10.90.0.0/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machines.Stop)
	m := machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	var uuid string
	heartbeats := func() int { return m.Answers(sim.Answer{Call: "heartbeat", Status: http.StatusAccepted}) }
	eventually(t, "the first heartbeat", func() bool { return heartbeats() == 1 })
	nodes, _ := e.do(t, "GET", "/v1/nodes", "").want(t, http.StatusOK).object(t)["nodes"].([]any)
	uuid, _ = nodes[0].(map[string]any)["uuid"].(string)
	look := func() answer {
		return e.send(t, "GET", "/v1/lookup?node_uuid="+uuid, headers{"X-OpenStack-Ironic-API-Version": "1.62"}, nil)
	}
	history := func() string { return e.do(t, "GET", "/v1/nodes/"+uuid+"/history", "").want(t, http.StatusOK).body }

	ahead.Add(int64(window + time.Minute))
	for range 3 {
		e.offer(t, string(m.Document())).want(t, http.StatusNotFound)
		look().want(t, http.StatusConflict)
	}
	if strings.Contains(history(), "new agent token") {
		t.Errorf("history = %s, want no new token", history())
	}

	m.PowerOff()
	ahead.Add(int64(2 * time.Minute)) // after which the answer of the agent no longer counts
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a heartbeat with the new token", func() bool { return heartbeats() == 2 })
	if !strings.Contains(history(), "new agent token, and the old one is void") {
		t.Errorf("history = %s, want a row about the new token", history())
	}
	look().want(t, http.StatusConflict)
}
