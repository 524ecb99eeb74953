package demo

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestNodesBehaveByTheNamesOfTheirHosts(t *testing.T) {
	for _, tt := range []struct {
		host      string
		unknown   bool
		inventory bool
		managed   node.State
		provided  node.State
		alive     bool
		deletable bool
	}{
		{host: "demo-unmanaged-1", unknown: true},
		{host: "demo-importing", managed: node.Manageable, provided: node.Available, alive: true, deletable: true},
		{host: "demo-preparing-2", inventory: true, managed: node.Verifying, provided: node.Available, alive: true, deletable: true},
		{host: "demo-preparation-error", inventory: true, managed: node.Manageable, provided: node.CleanFailed, alive: true, deletable: true},
		{host: "demo-disconnected", inventory: true, managed: node.Manageable, provided: node.Available, deletable: true},
		{host: "demo-delete-error", inventory: true, managed: node.Manageable, provided: node.Available, alive: true},
		{host: "demo-web", inventory: true, managed: node.Manageable, provided: node.Available, alive: true, deletable: true},
	} {
		t.Run(tt.host, func(t *testing.T) {
			e, ctx := New(func() time.Time { return testNow }), t.Context()
			n, err := e.Find(ctx, provisioner.Identity{Name: provisioner.NodeName("metal", tt.host), MAC: "00:00:5E:00:53:01"})
			if tt.unknown {
				if !errors.Is(err, provisioner.ErrNotFound) {
					t.Errorf("error = %v, want not found", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Agent.Alive(testNow, 5*time.Minute); got != tt.alive {
				t.Errorf("alive = %v, want %v", got, tt.alive)
			}
			if macs, _ := e.MACs(ctx, n.ID); len(macs) == 0 || macs[0] != "00:00:5e:00:53:01" {
				t.Errorf("MAC addresses %v, want the host's first", macs)
			}
			if _, err := e.Inventory(ctx, n.ID); (err == nil) != tt.inventory {
				t.Errorf("inventory: %v, want one: %v", err, tt.inventory)
			}
			for _, step := range []struct {
				verb func() error
				want node.State
			}{
				{func() error { return e.Manage(ctx, n.ID) }, tt.managed},
				{func() error { return e.Provide(ctx, n.ID, provisioner.ProvideOptions{}) }, tt.provided},
			} {
				if err := step.verb(); err != nil {
					t.Fatal(err)
				}
				if got, _ := e.Node(ctx, n.ID); got.State != step.want {
					t.Errorf("state %q, want %q", got.State, step.want)
				}
			}
			if err := e.Delete(ctx, n.ID, ""); (err == nil) != tt.deletable {
				t.Errorf("delete: %v, want success: %v", err, tt.deletable)
			}
		})
	}
}

func TestEngineThatIsDownAnswersNothing(t *testing.T) {
	e, ctx := New(func() time.Time { return testNow }), t.Context()
	id := e.Discover(Machine{Inventory: SampleInventory("web")})
	e.SetDown("power cut")
	_, listErr := e.Nodes(ctx, provisioner.ListOptions{})
	_, readErr := e.Node(ctx, id)
	for what, err := range map[string]error{"list": listErr, "read": readErr, "manage": e.Manage(ctx, id), "delete": e.Delete(ctx, id, "")} {
		if !errors.Is(err, provisioner.ErrUnreachable) {
			t.Errorf("%s: error = %v, want unreachable", what, err)
		}
	}
	e.SetDown("")
	if _, err := e.Node(ctx, id); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}
