package hardware_test

import (
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

func TestInterfacesOfAMachineHaveDifferentNames(t *testing.T) {
	for _, count := range []int{0, 4, hardware.MaxNICs} {
		for index := range 500 {
			machine := hardware.Options{NICs: count}.Machine(1, index)
			seen := map[string]bool{}
			for _, nic := range machine.Inspection.Inventory.Interfaces {
				if seen[nic.Name] {
					t.Errorf("machine %d with %d NICs has two interfaces %s", index, count, nic.Name)
				}
				seen[nic.Name] = true
			}
		}
	}
}
