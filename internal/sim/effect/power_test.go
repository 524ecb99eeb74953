package effect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
)

func (m *machine) node() *node.Node {
	return &node.Node{UUID: "u", Driver: "fake-hardware", DriverInfo: node.ObjectOf(map[string]any{"fake_machine": m.url + "/machines/m1"})}
}

func TestRebootSwitchesOnAMachineThatIsOff(t *testing.T) {
	m := newMachine(t)
	turn := driver.Turn{}
	for {
		out, err := hardware.SetPower(t.Context(), m.node(), node.Rebooting, turn)
		if err != nil {
			t.Fatal(err)
		}
		if out.Done() {
			break
		}
		turn = drivertest.After(turn, out)
	}
	if diff := cmp.Diff([]string{"power on"}, m.Effects()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestPowerChangeIsConfirmedByReadingTheMachine(t *testing.T) {
	m := newMachine(t)
	m.faults(`"lie":1`)
	turn := driver.Turn{}
	for range 100 {
		out, err := hardware.SetPower(t.Context(), m.node(), node.PowerOn, turn)
		if err != nil || out.Done() {
			t.Fatalf("turn after %s = %+v, %v, want another one as long as the machine is off", turn.Elapsed, out, err)
		}
		turn = drivertest.After(turn, out)
	}
	if turn.Elapsed < time.Minute {
		t.Errorf("100 turns in %s, want pauses that grow", turn.Elapsed)
	}
	m.call("POST", "/machines/m1/effects", `{"kind":"boot device","detail":"disk"}`, nil) // a lie too
	m.Heal()
	m.call("POST", "/machines/m1/effects", `{"kind":"power on"}`, nil) // somebody pressed the button
	if out, err := hardware.SetPower(t.Context(), m.node(), node.PowerOn, turn); err != nil || !out.Done() {
		t.Errorf("turn when the machine is on = %+v, %v, want it done", out, err)
	}
	if diff := cmp.Diff([]string{"power on"}, m.Effects()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestPowerOfAMachineThatIsThereAlreadyIsLeftAlone(t *testing.T) {
	m := newMachine(t)
	if out, err := hardware.SetPower(t.Context(), m.node(), node.PowerOff, driver.Turn{}); err != nil || !out.Done() {
		t.Errorf("turn = %+v, %v, want it done", out, err)
	}
	if got := m.Effects(); len(got) != 0 {
		t.Errorf("effects %q, want none", got)
	}
}
