package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/inventory"
)

func TestBootInterfaceAndPhysicalFunctionsComeFirst(t *testing.T) {
	nic := func(name, mac, pci string) inventory.Interface {
		return inventory.Interface{Name: name, MACAddress: mac, PCIAddress: pci}
	}
	machine := &inventory.Inventory{
		Boot: inventory.Boot{PXEInterface: "01-02-00-00-00-00-05"},
		Interfaces: []inventory.Interface{
			nic("bond0", "02:00:00:00:00:01", ""),
			nic("enp1s0f0v0", "02:00:00:00:00:02", "0000:01:10.0"),
			nic("enp1s0f0", "02:00:00:00:00:03", "0000:01:00.0"),
			nic("eno1", "02:00:00:00:00:01", "0000:02:00.0"), // the bond has its address
			nic("veth9", "02:00:00:00:00:04", ""),
			nic("ib0", "", "0000:03:00.0"),
			nic("br0", "02:00:00:00:00:05", ""),
		},
	}
	ranked := []string{"02:00:00:00:00:05", "02:00:00:00:00:01", "02:00:00:00:00:03", "02:00:00:00:00:02", "02:00:00:00:00:04"}
	for limit := range ranked {
		first, leftOut := FirstMACs(machine, limit)
		if diff := cmp.Diff(ranked[:limit], first); diff != "" || leftOut != len(ranked)-limit {
			t.Errorf("limit %d leaves %d out (-want +got):\n%s", limit, leftOut, diff)
		}
	}
	if all, leftOut := FirstMACs(machine, len(ranked)); leftOut != 0 || !cmp.Equal(all, machine.MACs()) {
		t.Errorf("without need %d are left out of %v", leftOut, all)
	}
}
