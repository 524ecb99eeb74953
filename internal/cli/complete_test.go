package cli

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/ironic"
)

func TestFieldsAreCompletedOneAfterTheOther(t *testing.T) {
	for begun, want := range map[string][]string{
		"pow":                    {"power_state"},
		"uuid,na":                {"uuid,name"},
		"power_state,provision_": {"power_state,provision_state"},
		"provision_state,provi":  nil,
		"nothing":                nil,
	} {
		got, _ := CompleteList(Nodes.Long)(nil, nil, begun)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", begun, diff)
		}
	}
}

func TestNamesThatAShellWouldActOnAreNotSuggested(t *testing.T) {
	var n ironic.Node
	n.UUID, n.Name = "u-1", "evil\x1b[2J"
	if got := suggestion(n, "evil"); got != "" {
		t.Errorf("suggested %q", got)
	}
	if got := suggestion(n, "u"); got != "u-1" {
		t.Errorf("suggested %q, want the UUID", got)
	}
}

func TestHostsAreSuggestedBesideNodes(t *testing.T) {
	_, engine := newFakeEngine(t, map[string][]answer{"GET /v1/nodes": {{200, `{"nodes": [{"uuid": "u1", "name": "web~1", "provision_state": "enroll"}]}`}}})
	completion := Completion{Connect: func(time.Duration) (*ironic.Client, error) { return engine, nil }}
	suggest := completion.HostsAndNodes(func(context.Context) []string { return []string{"web-1", "db-1"} })
	got, _ := suggest(&cobra.Command{}, nil, "web")
	if diff := cmp.Diff([]string{"web~1\tenroll", "web-1\thost"}, got); diff != "" {
		t.Errorf("suggestions (-want +got):\n%s", diff)
	}
	if got, _ := suggest(&cobra.Command{}, []string{"web-1"}, ""); len(got) > 0 {
		t.Errorf("a second argument is suggested: %v", got)
	}
}
