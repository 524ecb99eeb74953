package node

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryRefusalSaysWhatIsWrongAndWhatToChange(t *testing.T) {
	at := time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC)
	for reason := range refusalReasons {
		text := HeartbeatRefusal{Reason: reason, URL: "https://192.0.2.7:9999", At: at}.String()
		for _, want := range []string{string(reason), reason.Cause(), reason.Advice(), "https://192.0.2.7:9999", "2031-03-04T10:11:12Z"} {
			if want == "" || !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", reason, text, want)
			}
		}
	}
}

// TestRefusalsOfTheAgentItselfComeFirst has somebody without the token send heartbeats
// after the agent.
func TestRefusalsOfTheAgentItselfComeFirst(t *testing.T) {
	at := time.Date(2031, time.March, 4, 10, 11, 12, 0, time.UTC)
	info := ObjectOf(map[string]any{HeartbeatRefusalsKey: []HeartbeatRefusal{
		{Reason: RefusedNoToken, At: at.Add(2 * time.Second)},
		{Reason: RefusedToken, At: at.Add(3 * time.Second)},
		{Reason: RefusedPlainHTTP, At: at},
		{Reason: RefusedNetwork, At: at.Add(time.Second)},
	}})
	var got []RefusalReason
	for _, r := range HeartbeatRefusals(info) {
		got = append(got, r.Reason)
	}
	if want := []RefusalReason{RefusedNetwork, RefusedPlainHTTP, RefusedToken, RefusedNoToken}; !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	for since, want := range map[time.Duration]RefusalReason{0: RefusedNetwork, 2 * time.Second: RefusedToken, 4 * time.Second: ""} {
		if got, ok := FirstRefusal(HeartbeatRefusals(info), at.Add(since)); got.Reason != want || ok != (want != "") {
			t.Errorf("first since %s: %q, %v; want %q", since, got.Reason, ok, want)
		}
	}
}
