package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestEveryWaitForARamdiskThatTimesOutSaysWhatToLookAt(t *testing.T) {
	const advice = "See that the machine boots the ramdisk (its console, the DHCP server's log) and that the ramdisk reaches api.public_url"
	since := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for state, silence := range map[node.State]string{
		node.InspectWait: "the machine's ramdisk has posted no inventory",
		node.CleanWait:   "nothing was heard from the machine's ramdisk",
		node.DeployWait:  "nothing was heard from the machine's ramdisk",
		node.ServiceWait: "nothing was heard from the machine's ramdisk",
		node.RescueWait:  "nothing was heard from the machine's ramdisk",
	} {
		text := (&timeoutError{state: state, since: since, silent: 30 * time.Minute}).Error()
		want := `timed out in state "` + string(state) + `": ` + silence + " for 30m0s (since 2026-01-01T12:00:00Z). " + advice
		if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, ".") {
			t.Errorf("got  %q\nwant %q", text, want)
		}
		if log := ". The engine's log says why it refused a post"; strings.Contains(text, log) != (state == node.InspectWait) {
			t.Errorf("%q should name refused posts of inspections only", text)
		}
	}
}

// TestRefusedHeartbeatIsTheAdviceOfItsWait checks the advice after a refused heartbeat: the ramdisk
// runs and reaches the engine, so advice about its boot would mislead.
func TestRefusedHeartbeatIsTheAdviceOfItsWait(t *testing.T) {
	refusal := node.HeartbeatRefusal{Reason: "no-token", URL: "https://192.0.2.1:9999"}
	text := (&timeoutError{state: node.CleanWait, refusal: refusal}).Error()
	if !strings.HasSuffix(text, refusal.String()) || strings.Contains(text, "See that the machine boots") {
		t.Errorf("got %q", text)
	}
}
