package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

func fakeNode(info map[string]any) *node.Node {
	drivers, err := driver.New(driver.Config{})
	if err != nil {
		panic(err)
	}
	interfaces, err := drivers.Resolve("fake-hardware", node.Interfaces{})
	if err != nil {
		panic(err)
	}
	return &node.Node{UUID: "fake", Driver: "fake-hardware", Interfaces: interfaces, DriverInfo: node.ObjectOf(info)}
}

func TestFakeTakesItsTimeAndFailsAtTheEnd(t *testing.T) {
	n := fakeNode(map[string]any{"fake_inspect_delay": 2, "fake_inspect_wait": "1.5", "fake_inspect_error": "blind"})
	for _, tt := range []struct {
		elapsed     time.Duration
		again, park time.Duration
		fails       bool
	}{
		{0, 2 * time.Second, 0, false},
		{1500 * time.Millisecond, 500 * time.Millisecond, 0, false},
		{2 * time.Second, 0, 1500 * time.Millisecond, false},
		{3500 * time.Millisecond, 0, 0, true},
		{time.Hour, 0, 0, true},
	} {
		out, err := driver.Fake{}.Inspect(t.Context(), n, driver.Turn{Elapsed: tt.elapsed})
		var failure *node.DriverError
		if tt.fails && fmt.Sprint(err) != "fake_inspect_error: blind" {
			t.Errorf("after %s: %v, want it to name the key", tt.elapsed, err)
		}
		if out.Again != tt.again || out.Park != tt.park || errors.As(err, &failure) != tt.fails {
			t.Errorf("after %v: %+v, %v", tt.elapsed, out, err)
		}
	}
}

func TestFakeRefusesTimesThatAreNone(t *testing.T) {
	for _, value := range []any{"soon", -1, "NaN", 1e9, []int{1}, true} {
		err := driver.Fake{}.Validate(fakeNode(map[string]any{"fake_deploy_wait": value}))
		var invalid *node.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "fake_deploy_wait") {
			t.Errorf("%v: %v, want a ValidationError that names the key", value, err)
		}
	}
	if err := (driver.Fake{}).Validate(fakeNode(map[string]any{"fake_deploy_wait": "3", "fake_clean_delay": 0.5})); err != nil {
		t.Error(err)
	}
}

func TestEveryNameOfTheTableIsBuiltAbsentOrSaysThatItIsNot(t *testing.T) {
	drivers, err := driver.New(driver.Config{EnabledHardwareTypes: []string{"redfish", "ipmi", "fake-hardware", "manual-management"}})
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
				case !*got.Result && !strings.Contains(got.Reason, "not built yet"):
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
	drivers, err := driver.New(driver.Config{})
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
