package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

func TestFieldsAreCompletedOneAfterTheOther(t *testing.T) {
	for begun, want := range map[string][]string{
		"pow":                    {"power_state"},
		"uuid,na":                {"uuid,name"},
		"power_state,provision_": {"power_state,provision_state"},
		"provision_state,provi":  nil,
		"nothing":                nil,
	} {
		got, _ := CompleteFields(nil, nil, begun)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", begun, diff)
		}
	}
}

func TestNamesThatAShellWouldActOnAreNotSuggested(t *testing.T) {
	var n baremetal.Node
	n.UUID, n.Name = "u-1", "evil\x1b[2J"
	if got := suggestion(n, "evil"); got != "" {
		t.Errorf("suggested %q", got)
	}
	if got := suggestion(n, "u"); got != "u-1" {
		t.Errorf("suggested %q, want the UUID", got)
	}
}
