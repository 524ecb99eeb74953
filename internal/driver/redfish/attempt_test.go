package redfish_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// turnOf makes a turn of an operation of the driver.
type turnOf func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error)

// attempts runs the suite of all drivers for an operation, on a machine of each vendor.
func attempts(t *testing.T, o drivertest.Operation, prepare func(*machine), do turnOf) {
	t.Helper()
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		attemptsOf(t, vendor, o, prepare, do)
	})
}

// attemptsOf runs the suite on a machine of one vendor.
func attemptsOf(t *testing.T, vendor string, o drivertest.Operation, prepare func(*machine), do turnOf) {
	t.Helper()
	o.New = func(t *testing.T) (drivertest.Machine, drivertest.TurnFunc) {
		t.Helper()
		m, d := newMachine(t, vendor)
		prepare(m)
		m.before = len(m.Server.Effects())
		return m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) { return do(ctx, d, m.node, turn) }
	}
	drivertest.Attempts(t, o)
}

func isOn(m *machine) {
	if err := m.Reset(&bmc.Call{}, bmc.ResetOn); err != nil {
		m.t.Fatal(err)
	}
}

func isOff(*machine) {}

func powerTo(target node.PowerState) turnOf {
	return func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
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

func TestRebootOfAMachineThatIsOffSwitchesItOn(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		for _, keepsOn := range []bool{false, true} {
			m, d := newMachine(t, vendor)
			m.node.DisablePowerOff = keepsOn
			if _, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.SetPower(ctx, m.node, node.Rebooting, turn)
			}); err != nil {
				t.Fatal(err)
			}
			if got := m.Effects(); !slices.Equal(got, []string{"power on"}) {
				t.Errorf("disable_power_off %v: effects = %q, want power on alone", keepsOn, got)
			}
		}
	})
}

func TestRestartWithoutPowerOffIsNotRepeatedBlindly(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.node.DisablePowerOff = true
	if _, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return d.SetPower(ctx, m.node, node.Rebooting, turn)
	}); err != nil {
		t.Fatal(err)
	}
	if got := m.Effects(); len(got) != 2 || got[1] != "reboot" {
		t.Errorf("effects = %q, want one restart and no power off", got)
	}
	if _, err := d.SetPower(t.Context(), m.node, node.Rebooting, driver.Turn{Attempt: driver.Unknown}); err == nil || len(m.Effects()) != 2 {
		t.Errorf("with an unknown outcome: %v, effects %q, want an error and no second restart", err, m.Effects())
	}
}

func TestResetThatTheBMCAcceptedIsDoneThoughTheBMCDoesNotAnswerAfterIt(t *testing.T) {
	for _, test := range []struct {
		keepsOn bool
		want    []string
	}{
		{false, []string{"power off", "power on"}},
		{true, []string{"reboot"}},
	} {
		m, d := newMachine(t, "dell")
		isOn(m)
		m.node.DisablePowerOff, m.before = test.keepsOn, len(m.Server.Effects())
		reset := false
		m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
			if reset {
				reset = false
				said(w, http.StatusServiceUnavailable, ``)
				return
			}
			bmc.ServeHTTP(w, r)
			reset = strings.Contains(r.URL.Path, "ComputerSystem.Reset")
		})
		_, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return d.SetPower(ctx, m.node, node.Rebooting, turn)
		})
		if got := m.Effects(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("disable_power_off %v: error = %v, effects %q; want %q", test.keepsOn, err, got, test.want)
		}
	}
}

func TestOtherChangesHappenOnce(t *testing.T) {
	yes := true
	for _, test := range []struct {
		name      string
		operation drivertest.Operation
		prepare   func(*machine)
		do        turnOf
	}{
		{
			"boot device",
			drivertest.Operation{Effects: []string{"boot device"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true},
			isOff,
			func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				return d.SetBootDevice(ctx, n, node.BootDevice{Device: "cdrom"}, turn)
			},
		},
		{
			"boot device for good",
			drivertest.Operation{Effects: []string{"boot device"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true},
			isOff,
			func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				return d.SetBootDevice(ctx, n, node.BootDevice{Device: "disk", Persistent: &yes}, turn)
			},
		},
		{
			"virtual media",
			drivertest.Operation{Effects: []string{"attach medium"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true},
			isOff,
			func(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				return d.AttachMedium(ctx, n, node.Medium{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"}, turn)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) { attempts(t, test.operation, test.prepare, test.do) })
	}
}

func secureBootOn(ctx context.Context, d redfish.Driver, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	return d.SetSecureBoot(ctx, n, true, turn)
}

func TestSecureBootIsChangedOnce(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		for name, test := range map[string]struct {
			prepare func(*machine)
			restart []string // which an iDRAC needs
		}{
			"off": {isOff, []string{"power on", "power off"}},
			"on":  {isOn, []string{"power off", "power on"}},
		} {
			t.Run(name, func(t *testing.T) {
				o := drivertest.Operation{Effects: []string{"secure boot"}, Unclear: drivertest.ReadsFirst, Unwaited: true, Untasked: true}
				if vendor == "dell" {
					o.Effects = append(o.Effects, test.restart...)
				}
				attemptsOf(t, vendor, o, test.prepare, secureBootOn)
			})
		}
	})
}

func TestSecureBootOfAnIDRACIsShownBeforeItsMachineIsSwitchedOffAgain(t *testing.T) {
	for name, prepare := range map[string]func(*machine){"off": isOff, "on": isOn} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
			prepare(m)
			m.Pass(10 * time.Minute)
			before := m.Power()
			var out driver.Outcome
			phases, err := run(m, func(ctx context.Context, turn driver.Turn) (_ driver.Outcome, err error) {
				out, err = secureBootOn(ctx, d, m.node, turn)
				return out, err
			})
			if err != nil {
				t.Fatalf("%v after %q", err, phases)
			}
			out.Apply(m.node)
			if on, err := d.SecureBoot(t.Context(), m.node); err != nil || !on || !*m.node.SecureBoot || m.Power() != before {
				t.Errorf("secure boot is %v, %v, and the machine is %s; want it on, and the machine %s", on, err, m.Power(), before)
			}
		})
	}
}

func TestSecureBootOfAMachineWhoseBMCIsNotReadyIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		within time.Duration // the BMC is not ready
		fails  bool
	}{"a while": {10 * time.Minute, false}, "for ever": {24 * time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.RealisticTimes()})
			var hidden atomic.Bool
			m.behind(func(w http.ResponseWriter, r *http.Request, bmc http.Handler) {
				if hidden.Load() {
					said(w, http.StatusBadRequest, notReady)
					return
				}
				bmc.ServeHTTP(w, r)
			})
			_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				hidden.Store(turn.Phase == "verify" && turn.Elapsed < test.within)
				return secureBootOn(ctx, d, m.node, turn)
			})
			var failure *node.DriverError
			if failed := errors.As(err, &failure) && !failure.Retryable; failed != test.fails || err != nil && !failed {
				t.Errorf("error = %v, want a final failure: %t", err, test.fails)
			}
		})
	}
}

func TestSecureBootThatAMachineDoesNotShowFails(t *testing.T) {
	m, d := newMachine(t, "dell")
	isOn(m)
	m.FailTasks()
	_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
		return secureBootOn(ctx, d, m.node, turn)
	})
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Retryable || m.Power() != bmc.On {
		t.Errorf("error = %v, the machine is %s; want a final failure that leaves it on", err, m.Power())
	}
}
