package ipmi_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
)

// turnOf makes a turn of an operation of the driver.
type turnOf func(ctx context.Context, d ipmi.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// attempts runs the suite of all drivers for an operation, on a machine of each vendor.
func attempts(t *testing.T, o drivertest.Operation, prepare func(*machine), do turnOf) {
	t.Helper()
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			o.New = func(t *testing.T) (drivertest.Machine, drivertest.TurnFunc) {
				t.Helper()
				m, d := newMachine(t, vendor)
				prepare(m)
				m.before = len(m.Server.Effects())
				return m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) { return do(ctx, d, m.node, turn) }
			}
			drivertest.Attempts(t, o)
		})
	}
}

func isOn(m *machine) {
	if err := m.Reset(&bmc.Call{}, bmc.ResetOn); err != nil {
		m.t.Fatal(err)
	}
}

func isOff(*machine) {}

func powerTo(target node.PowerState) turnOf {
	return func(ctx context.Context, d ipmi.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
		return d.SetPower(ctx, n, target, turn)
	}
}

func TestPowerChangesHappenOnce(t *testing.T) {
	for _, change := range drivertest.PowerChanges {
		t.Run(change.Name, func(t *testing.T) {
			prepare := isOn
			if change.FromOff {
				prepare = isOff
			}
			attempts(t, change.Operation(), prepare, powerTo(change.Target))
		})
	}
}

func TestBootDeviceIsSetOnce(t *testing.T) {
	yes := true
	for name, device := range map[string]node.BootDevice{
		"once": {Device: "cdrom"}, "for good": {Device: "disk", Persistent: &yes}, "safe mode": {Device: "safe"},
	} {
		t.Run(name, func(t *testing.T) {
			o := drivertest.Operation{Effects: []string{"boot device"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true}
			attempts(t, o, isOff, func(ctx context.Context, d ipmi.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				return d.SetBootDevice(ctx, n, device, turn)
			})
		})
	}
}

func TestInterruptHappensOnce(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	if _, err := d.InjectNMI(t.Context(), m.node, fresh); err != nil {
		t.Fatal(err)
	}
	if _, err := d.InjectNMI(t.Context(), m.node, driver.Turn{Attempt: driver.Unknown}); err == nil {
		t.Error("an interrupt whose outcome is unknown was repeated")
	}
	if got := m.Effects(); !slices.Equal(got, []string{"power on", "nmi"}) {
		t.Errorf("effects = %q, want one interrupt", got)
	}
}

func TestRebootOfAMachineThatIsOffSwitchesItOn(t *testing.T) {
	for _, keepsOn := range []bool{false, true} {
		m, d := newMachine(t, "hpe")
		m.node.DisablePowerOff = keepsOn
		if err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return d.SetPower(ctx, m.node, node.Rebooting, turn)
		}); err != nil {
			t.Fatal(err)
		}
		if got := m.Effects(); !slices.Equal(got, []string{"power on"}) {
			t.Errorf("disable_power_off %v: effects = %q, want power on alone", keepsOn, got)
		}
	}
}

func TestMachineThatMustStayOnIsResetOnce(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.node.DisablePowerOff = true
	if err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.SetPower(ctx, m.node, node.Rebooting, turn)
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"power on", "reboot"}
	if got := m.Effects(); !slices.Equal(got, want) {
		t.Errorf("effects = %q, want one reset and no power off", got)
	}
	if _, err := d.SetPower(t.Context(), m.node, node.Rebooting, driver.Turn{Attempt: driver.Unknown}); err == nil || !slices.Equal(m.Effects(), want) {
		t.Errorf("with an unknown outcome: %v, effects %q, want an error and no second reset", err, m.Effects())
	}
	var invalid *node.ValidationError
	if _, err := d.SetPower(t.Context(), m.node, node.SoftRebooting, fresh); !errors.As(err, &invalid) {
		t.Errorf("a soft reboot: %v, want a ValidationError", err)
	}
}

func TestPhaseOfAnotherReleaseSwitchesNothing(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	_, err := d.SetPower(t.Context(), m.node, node.Rebooting, driver.Turn{Attempt: driver.Unknown, Phase: "a later phase"})
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Retryable || !slices.Equal(m.Effects(), []string{"power on"}) {
		t.Errorf("error = %v, effects %q, want a final failure and no change", err, m.Effects())
	}
}
