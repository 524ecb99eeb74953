package fake_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

func fakeNode(info map[string]any) *node.Node {
	return &node.Node{UUID: "fake", Driver: "fake-hardware", DriverInfo: node.ObjectOf(info)}
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
		out, err := fake.Hardware{}.Inspect(t.Context(), n, driver.Turn{Elapsed: tt.elapsed})
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
		err := fake.Hardware{}.Validate(fakeNode(map[string]any{"fake_deploy_wait": value}))
		var invalid *node.ValidationError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "fake_deploy_wait") {
			t.Errorf("%v: %v, want a ValidationError that names the key", value, err)
		}
	}
	if err := (fake.Hardware{}).Validate(fakeNode(map[string]any{"fake_deploy_wait": "3", "fake_clean_delay": 0.5})); err != nil {
		t.Error(err)
	}
}

func TestPower(t *testing.T) {
	drivertest.Power(t, drivertest.PowerCase{Power: fake.Hardware{}, Reachable: &node.Node{UUID: "any"}})
}

func TestPowerShowsWhatWasStored(t *testing.T) {
	for _, state := range []node.PowerState{node.PowerOn, node.PowerOff} {
		got, err := fake.Hardware{}.PowerState(t.Context(), &node.Node{PowerState: state})
		if err != nil || got != state {
			t.Errorf("PowerState = %q, %v, want %q", got, err, state)
		}
	}
}
