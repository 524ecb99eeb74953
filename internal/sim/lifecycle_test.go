package sim_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
)

// insecureClient talks to agents, whose certificates it does not know.
func insecureClient() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
}

// command sends one command without parameters to a machine's agent.
func command(ctx context.Context, t *testing.T, m *sim.Machine, name string) {
	t.Helper()
	commandWith(ctx, t, m, name, "{}")
}

// commandWith sends one command to a machine's agent and returns the answer.
func commandWith(ctx context.Context, t *testing.T, m *sim.Machine, name, params string) string {
	t.Helper()
	target := "https://" + m.Address().String() + ":9999/v1/commands/?wait=true&agent_token=" + strings.Repeat("t", 40)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader([]byte(`{"name":"`+name+`","params":`+params+`}`)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := insecureClient().Do(request)
	if err != nil {
		t.Fatalf("send %s: %v", name, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s is answered %s %s, %v", name, answer.Status, text, err)
	}
	return string(text)
}

func TestAgentSwitchesItsMachine(t *testing.T) {
	engine := newStandIn(t)
	machines := newMachines(t, engine, 1, func(o *sim.Options) { o.Clock = agent.Accelerated(20) })
	ctx, m := soon(t), machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(ctx, sim.Running); err != nil {
		t.Fatal(err)
	}
	command(ctx, t, m, "standby.run_image")
	booted := sim.Answer{Call: agent.CallInspect, Status: 200}
	if err := machines.Wait(ctx, func(s sim.Snapshot) bool { return s.Answers[booted] == 2 }); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(ctx, sim.Running); err != nil {
		t.Fatal(err)
	}
	command(ctx, t, m, "standby.power_off")
	if err := m.Wait(ctx, sim.Off); err != nil {
		t.Fatal(err)
	}
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(ctx, sim.Running); err != nil {
		t.Fatal(err)
	}
	if got := m.Status().Boots; got != 3 {
		t.Errorf("machine booted %d times, want 3", got)
	}
}

func TestAgentThatFindsNoNodeIsStartedAgain(t *testing.T) {
	engine := newStandIn(t)
	engine.hideNodes.Store(true)
	machines := newMachines(t, engine, 1, func(o *sim.Options) { o.Clock = agent.Accelerated(2000) })
	ctx, m := soon(t), machines.Machine(0)
	if err := m.PowerOn(); err != nil {
		t.Fatal(err)
	}
	posts := sim.Answer{Call: agent.CallInspect, Status: 200}
	if err := machines.Wait(ctx, func(s sim.Snapshot) bool { return s.Answers[posts] >= 2 }); err != nil {
		t.Fatal(err)
	}
	if got := m.Status().Boots; got != 1 {
		t.Errorf("machine booted %d times, want 1: only its agent starts again", got)
	}
	engine.hideNodes.Store(false)
	if err := waitRunning(ctx, machines); err != nil {
		t.Fatal(err)
	}
}
