package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// notedReasons returns the reasons that are noted in a node.
func (w *world) notedReasons(n *node.Node) []node.RefusalReason {
	w.t.Helper()
	var reasons []node.RefusalReason
	for _, r := range node.HeartbeatRefusals(w.stored(n.UUID).DriverInternalInfo) {
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

func TestRefusalsOutliveARestartAndEndWithAnAcceptedHeartbeat(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AgentRules = agent.Rules{RequireTLS: true} })
	m := unknown(1)
	n := w.enrol(m)
	token := w.token(m)
	plain := beat(token, func(b *node.Heartbeat) { b.CallbackURL = "http://192.0.2.1:9999" })
	wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, plain))
	want := []node.HeartbeatRefusal{{Reason: node.RefusedPlainHTTP, URL: "http://192.0.2.1:9999", At: w.clock.Now().UTC()}}
	if diff := cmp.Diff(want, node.HeartbeatRefusals(w.stored(n.UUID).DriverInternalInfo)); diff != "" {
		t.Fatalf("refusals (-want +got):\n%s", diff)
	}
	w.clock.Advance(time.Minute)
	w.Conductor = w.start("conductor-2", func(c *Config) { c.AgentRules = agent.Rules{RequireTLS: true} })
	wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, beat("guessed")))
	w.HeartbeatRefused(t.Context(), n.UUID, node.RefusedMalformed, "") // within the minute
	if diff := cmp.Diff([]node.RefusalReason{node.RefusedPlainHTTP, node.RefusedToken}, w.notedReasons(n)); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if err := w.Heartbeat(t.Context(), n.UUID, beat(token)); err != nil {
		t.Fatal(err)
	}
	if left := w.notedReasons(n); left != nil {
		t.Errorf("after an accepted heartbeat: %v, want none", left)
	}
}

func TestRefusalsWaitWhileTheNodeIsUnderWork(t *testing.T) {
	w := newWorld(t)
	n := w.enrol(unknown(1))
	w.lease(n, "conductor-2")
	before := w.stored(n.UUID)
	wantIs(t, w.Heartbeat(t.Context(), n.UUID, beat("guessed")), agent.ErrToken)
	if diff := cmp.Diff(before, w.stored(n.UUID)); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

// TestTimeoutNamesTheHeartbeatThatWasRefused has a machine send heartbeats without its
// token until the wait for it is over.
func TestTimeoutNamesTheHeartbeatThatWasRefused(t *testing.T) {
	w := newWorld(t)
	n := w.fake(node.Manageable, nil)
	w.send(n, "clean", with(step("deploy.wait")))
	w.arrive(n, node.CleanWait)
	w.clock.Advance(time.Minute)
	wantIs(t, w.Heartbeat(t.Context(), n.UUID, beat("")), agent.ErrToken)
	w.pass(w.cfg.Limits.CallbackTimeout)
	got := w.arrive(n, node.CleanFailed).LastError
	for _, want := range []string{"no heartbeat of the machine's ramdisk was accepted", "no-token", "https://192.0.2.1:9999", "Restart the ramdisk"} {
		if !strings.Contains(got, want) {
			t.Errorf("last_error = %q, want %q in it", got, want)
		}
	}
}

func TestVerificationNamesTheHeartbeatThatWasRefused(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AgentRules = agent.Rules{VerifyAddress: true} })
	m := unknown(1)
	n := w.enrol(m)
	foreign := beat(w.token(m), func(b *node.Heartbeat) { b.CallbackURL = "https://192.0.2.77:9999" })
	w.clock.Advance(heartbeatTimeout + time.Second)
	wantAs[*node.ValidationError](t, w.Heartbeat(t.Context(), n.UUID, foreign))
	w.send(n, "manage")
	w.awaitWorkDone()
	if got := w.stored(n.UUID).LastError; !strings.Contains(got, "agent.verify_callback_address") || !strings.Contains(got, "192.0.2.77") {
		t.Errorf("last_error = %q, want the refused URL and the setting", got)
	}
}
