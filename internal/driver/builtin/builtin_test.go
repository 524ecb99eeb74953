package builtin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
)

func fakeNode(info map[string]any) *node.Node {
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		panic(err)
	}
	interfaces, err := drivers.Resolve("fake-hardware", node.Interfaces{})
	if err != nil {
		panic(err)
	}
	return &node.Node{UUID: "fake", Driver: "fake-hardware", Interfaces: interfaces, DriverInfo: node.ObjectOf(info)}
}

func TestEveryNameOfTheTableIsBuiltAbsentOrSaysThatItIsNot(t *testing.T) {
	drivers, err := builtin.New(driver.Config{EnabledHardwareTypes: []string{"redfish", "ipmi", "fake-hardware", "manual-management"}}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range drivers.Names() {
		hardware, _ := drivers.Type(name)
		for kind, names := range hardware.Enabled {
			for _, chosen := range names {
				n := &node.Node{UUID: "u", Driver: name, Interfaces: hardware.Default}
				n.Interfaces[kind] = chosen
				got := drivers.Validate(n, node.InterfaceKind(kind))
				switch {
				case strings.HasPrefix(chosen, "no-"):
					if got.Result != nil || got.Reason == "" {
						t.Errorf("%s %s %s: %+v, want nothing promised", name, node.InterfaceKind(kind), chosen, got)
					}
				case got.Result == nil:
					t.Errorf("%s %s %s: %+v", name, node.InterfaceKind(kind), chosen, got)
				case !*got.Result && !strings.Contains(got.Reason, "This engine does not have") && !strings.Contains(got.Reason, "boot.listen"):
					t.Errorf("%s %s %s: %q", name, node.InterfaceKind(kind), chosen, got.Reason)
				}
			}
		}
	}
	for kind := range node.InterfaceCount {
		if got := drivers.Validate(fakeNode(nil), kind); got.Result == nil || !*got.Result {
			t.Errorf("fake %s: %+v", kind, got)
		}
	}
}

func TestAbilityThatAnInterfaceLacksIsNotSupported(t *testing.T) {
	drivers, err := builtin.New(driver.Config{}, builtin.Dependencies{})
	if err != nil {
		t.Fatal(err)
	}
	n := fakeNode(nil)
	n.Interfaces[node.BIOSInterface] = "no-bios"
	_, err = driver.Ability[driver.BIOS](drivers, n, node.BIOSInterface, "BIOS settings")
	var missing *node.NotSupportedError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "no-bios") {
		t.Errorf("error = %v", err)
	}
	if steps := drivers.Steps(n, driver.CleanSteps); len(steps) == 0 {
		t.Error("the other interfaces lost their steps")
	}
	for _, step := range drivers.Steps(n, driver.CleanSteps) {
		if step.Interface == "bios" {
			t.Errorf("step %s of an interface that is not there", step.Name())
		}
	}
}
