package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
)

func TestPortChangesCompareTheResultWithWhatIsStored(t *testing.T) {
	tag := node.ObjectOf(map[string]any{"tag": "a"})
	stored := []Port{{UUID: "same", Address: "02:00:00:00:00:01"}, {UUID: "tagged", Address: "02:00:00:00:00:02"}, {UUID: "gone", Address: "02:00:00:00:00:03"}}
	ports := newPorts(stored)

	if got := ports.Add(Port{Address: "02:00:00:00:00:01", PXEEnabled: true}); got.UUID != "same" || got.PXEEnabled {
		t.Errorf("adding a known address returns %+v, want the stored port as it is", got)
	}
	ports.Find("02:00:00:00:00:01").PXEEnabled = true
	ports.Find("02:00:00:00:00:01").PXEEnabled = false
	ports.Find("02:00:00:00:00:02").Extra = tag
	ports.Add(Port{Address: "02:00:00:00:00:04"})
	ports.Add(Port{Address: "02:00:00:00:00:05"})
	ports.Delete("02:00:00:00:00:03")
	ports.Delete("02:00:00:00:00:05")
	ports.Delete("02:00:00:00:00:99")

	created, updated, deleted := ports.changes()
	if diff := cmp.Diff([]Port{{Address: "02:00:00:00:00:04"}}, created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Port{{UUID: "tagged", Address: "02:00:00:00:00:02", Extra: tag}}, updated); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stored[2:], deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if ports.Find("02:00:00:00:00:03") != nil {
		t.Error("a deleted port is still found")
	}
}

func TestPortDeletedAndAddedAgainIsReplaced(t *testing.T) {
	ports := newPorts([]Port{{UUID: "old", Address: "02:00:00:00:00:01", PXEEnabled: true}})
	ports.Delete("02:00:00:00:00:01")
	ports.Add(Port{Address: "02:00:00:00:00:01"})

	created, updated, deleted := ports.changes()
	if len(created) != 1 || len(updated) != 0 || len(deleted) != 1 {
		t.Errorf("created %v, updated %v, deleted %v, want one created and one deleted", created, updated, deleted)
	}
}
