package discovery

import (
	"testing"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/inventory"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

func TestHostBootsInTheModeInWhichItsMachineWasFound(t *testing.T) {
	for _, tt := range []struct {
		found          string
		template, want v1alpha1.BootMode
	}{
		{"bios", "", v1alpha1.BootModeLegacy},
		{"uefi", "", ""},
		{"", "", ""},
		{"bios", v1alpha1.BootModeUEFI, v1alpha1.BootModeUEFI},
	} {
		inv := &provisioner.Inventory{Hardware: inventory.Inventory{Boot: inventory.Boot{CurrentBootMode: tt.found}}}
		resource := &discoveryv1.BareMetalHostDiscovery{}
		resource.Spec.HostTemplate.BootMode = tt.template
		host, err := hostFor(resource, creation{candidate: candidate{facts: factsOf(provisioner.Node{}, inv)}}, "a")
		if err != nil {
			t.Fatal(err)
		}
		if host.Spec.BootMode != tt.want {
			t.Errorf("found in mode %q, template %q: got %q, want %q", tt.found, tt.template, host.Spec.BootMode, tt.want)
		}
	}
}
