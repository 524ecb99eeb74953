package pxefilter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

func TestOnlyEthernetAddressesNameFiles(t *testing.T) {
	for address, want := range map[string]bool{
		"52:54:00:ab:cd:ef": true,
		"00:00:00:00:00:00": true,
		"52:54:00:AB:CD:EF": false, // the engine stores lower case
		"52-54-00-ab-cd-ef": false,
		"525400abcdef":      false,
		"52:54:00:ab:cd":    false,
		"52:54:00:ab:cd:eg": false,
		"../../etc/shadow0": false,
		"":                  false,
		"80:00:02:08:fe:80:00:00:00:00:00:00:52:54:00:00:00:ab:cd:ef": false, // InfiniBand
		"52:54:00:ff:fe:ab:cd:ef":                                     false, // EUI-64
	} {
		if got := isMAC(address); got != want {
			t.Errorf("isMAC(%q) = %v, want %v", address, got, want)
		}
	}
}

func TestBootNodesFollowChanges(t *testing.T) {
	const infiniBand = "80:00:02:08:fe:80:00:00:00:00:00:00:52:54:00:00:00:ab:cd:ef"
	f := newBootNodes()
	one := store.BootNode{ID: 1, UUID: "one", State: node.Manageable, MACs: []string{mac1, infiniBand}}
	two := store.BootNode{ID: 2, UUID: "two", State: node.Manageable, MACs: []string{infiniBand}}
	moved := one
	moved.State = node.InspectWait
	steps := []struct {
		name    string
		changes store.BootChanges
		want    merged
	}{
		{"two nodes", store.BootChanges{Nodes: []store.BootNode{one, two}, NodeCount: 2, PortCount: 3}, merged{changed: true, complete: true, useless: []string{infiniBand}}},
		{"a heartbeat", store.BootChanges{Nodes: []store.BootNode{one}, NodeCount: 2, PortCount: 3}, merged{complete: true}},
		{"a state", store.BootChanges{Nodes: []store.BootNode{moved}, NodeCount: 2, PortCount: 3}, merged{changed: true, complete: true}},
		{"a port is gone", store.BootChanges{NodeCount: 2, PortCount: 2}, merged{}},
		{"a port is gone, another one came", store.BootChanges{
			Nodes:     []store.BootNode{{ID: 2, UUID: "two", State: node.Manageable, MACs: []string{infiniBand, mac2}}},
			NodeCount: 2, PortCount: 3,
		}, merged{changed: true}},
	}
	for _, step := range steps {
		for i := range step.changes.Nodes { // as they come from the database: each its own
			n := &step.changes.Nodes[i]
			n.MACs = append([]string(nil), n.MACs...)
		}
		if diff := cmp.Diff(step.want, f.merge(step.changes), cmp.AllowUnexported(merged{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if diff := cmp.Diff([]string{mac1}, f.nodes[1].MACs); diff != "" {
		t.Errorf("addresses of the first node (-want +got):\n%s", diff)
	}
}
