package redfish_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

var fresh = driver.Turn{}

func TestPowerIsThatOfTheInterface(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		gone := *m.node
		gone.DriverInfo = gone.DriverInfo.With(map[string]any{"redfish_address": "https://127.0.0.1:1"})
		drivertest.Power(t, drivertest.PowerCase{Power: d, Reachable: m.node, Unreachable: &gone})
	})
}

func TestUnreachableBMCNamesTheKeyToCheck(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.info(map[string]any{"redfish_address": "https://127.0.0.1:1"})
	if failure := read(t, d, m.node); failure == nil || !failure.Retryable || !failure.Refused || !strings.Contains(failure.Reason, "check redfish_address") {
		t.Errorf("failure = %v, want a temporary refusal that says what to check", failure)
	}
}

func TestPowerThatChangesIsUnknown(t *testing.T) {
	m, d := newMachine(t, "dell", redfishtest.Options{Times: bmc.Times{PowerOn: time.Minute}})
	isOn(m)
	if failure := read(t, d, m.node); failure == nil || !failure.Retryable || !strings.Contains(failure.Reason, "PoweringOn") {
		t.Errorf("failure = %v, want a temporary one that names the state", failure)
	}
}

func TestMachineTellsItsBootDevice(t *testing.T) {
	yes, no := true, false
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		if got, err := d.BootDevice(t.Context(), m.node); err != nil || got.Device != "" || got.Persistent != nil {
			t.Errorf("without an override: %+v, %v, want that it is unknown", got, err)
		}
		for _, want := range []node.BootDevice{{Device: "pxe", Persistent: &no}, {Device: "disk", Persistent: &yes}, {Device: "cdrom", Persistent: &no}} {
			if _, err := d.SetBootDevice(t.Context(), m.node, want, fresh); err != nil {
				t.Fatal(err)
			}
			got, err := d.BootDevice(t.Context(), m.node)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v, (-want +got):\n%s", want.Device, err, diff)
			}
		}
		var refusal *node.ValidationError
		if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "tape"}, fresh); !errors.As(err, &refusal) {
			t.Errorf("an unknown device: %v, want a ValidationError", err)
		}
	})
}

func TestPersistentDeviceBecomesOneForTheNextBootWhereTheBMCHasNoOther(t *testing.T) {
	yes := true
	m, d := newMachine(t, "hpe")
	if _, err := d.SetBootDevice(t.Context(), m.node, node.BootDevice{Device: "cdrom", Persistent: &yes}, fresh); err != nil {
		t.Fatal(err)
	}
	if got, err := d.BootDevice(t.Context(), m.node); err != nil || got.Device != "cdrom" || *got.Persistent {
		t.Errorf("boot device = %+v, %v, want the CD for the next boot", got, err)
	}
}

func TestBootDeviceIsAskedForUntilTheMachineHasStarted(t *testing.T) {
	for name, test := range map[string]struct {
		post time.Duration
		want []string
	}{"in ten minutes": {10 * time.Minute, []string{"power on", "boot device"}}, "never": {24 * time.Hour, []string{"power on"}}} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "hpe", redfishtest.Options{Times: bmc.Times{POST: test.post}})
			isOn(m)
			_, err := run(m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.SetBootDevice(ctx, m.node, node.BootDevice{Device: "pxe"}, turn)
			})
			failure, failed := errors.AsType[*node.DriverError](err)
			if got := m.Effects(); !slices.Equal(got, test.want) || failed != (len(test.want) == 1) || failed && (!failure.Retryable || !failure.Refused) {
				t.Errorf("error = %v, effects = %q, want %q, or else a temporary refusal", err, got, test.want)
			}
		})
	}
}

func TestBootModeIsShownAfterARestart(t *testing.T) {
	for _, vendor := range []string{"dell", "supermicro"} {
		m, d := newMachine(t, vendor)
		isOn(m)
		out, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
			return d.SetBootMode(ctx, m.node, "bios", turn)
		})
		if err != nil {
			t.Fatalf("%s: %v", vendor, err)
		}
		n := *m.node
		out.Apply(&n)
		if mode, err := d.BootMode(t.Context(), m.node); err != nil || mode != "bios" || n.BootMode != "bios" {
			t.Errorf("%s: boot mode = %q, %v, stored %q, want bios", vendor, mode, err, n.BootMode)
		}
	}
}

func TestMediaAreListedByTheirDevice(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		want := []node.Medium{
			{DeviceType: "cdrom", ImageURL: "http://192.0.2.1/boot.iso"},
			{DeviceType: "floppy", ImageURL: "http://192.0.2.1/config.img"},
		}
		attached := func() []node.Medium {
			media, err := d.Media(t.Context(), m.node)
			if err != nil {
				t.Fatal(err)
			}
			return media
		}
		for i, medium := range want {
			if _, err := finish(t.Context(), func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) {
				return d.AttachMedium(ctx, m.node, medium, turn)
			}); err != nil {
				if i == 1 && vendor == "supermicro" && strings.Contains(err.Error(), "no virtual device of the type floppy") {
					return
				}
				t.Fatal(err)
			}
		}
		got := attached()
		if len(got) != 2 || got[0].DeviceType == got[1].DeviceType {
			t.Fatalf("media = %+v, want %+v", got, want)
		}
		if _, err := d.DetachMedia(t.Context(), m.node, []string{"floppy"}, fresh); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[:1], attached()); diff != "" {
			t.Errorf("after the floppy was detached (-want +got):\n%s", diff)
		}
		if _, err := d.DetachMedia(t.Context(), m.node, nil, fresh); err != nil {
			t.Fatal(err)
		}
		if got := attached(); len(got) != 0 {
			t.Errorf("after all were detached: %+v", got)
		}
	})
}

func TestSettingsAndVersionsAreRead(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		settings, err := d.Interfaces()[node.BIOSInterface].(driver.BIOS).BIOSSettings(t.Context(), m.node)
		if err != nil || len(settings) != len(m.BIOS()) {
			t.Fatalf("%d settings, %v, want %d", len(settings), err, len(m.BIOS()))
		}
		described := 0
		for _, setting := range settings {
			if setting.AttributeType != "" && setting.ReadOnly != nil {
				described++
			}
		}
		if described != len(settings) {
			t.Errorf("the registry describes %d of %d settings, want all", described, len(settings))
		}
		components, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(t.Context(), m.node)
		if err != nil || len(components) < 3 || components[0].Component != "bios" || components[1].Component != "bmc" || !strings.HasPrefix(components[2].Component, "nic:") {
			t.Errorf("components = %+v, %v, want those of the BIOS, the BMC and the adapters", components, err)
		}
		on, err := d.SecureBoot(t.Context(), m.node)
		if err != nil || on {
			t.Errorf("secure boot = %v, %v, want that it is off", on, err)
		}
	})
}

func TestVersionsAreReadThoughTheBMCFailsToShowSome(t *testing.T) {
	for name, test := range map[string]struct {
		suffix string
		want   string // how the names of the components begin
	}{
		"adapters": {"/NetworkAdapters", "bios bmc"}, "managers": {"/Managers", "bios nic"},
	} {
		t.Run(name, func(t *testing.T) {
			m, d := newMachine(t, "dell")
			m.without(test.suffix, http.StatusInternalServerError, `{}`)
			components, err := d.Interfaces()[node.FirmwareInterface].(driver.Firmware).FirmwareComponents(t.Context(), m.node)
			var kinds []string
			for _, one := range components {
				kind, _, _ := strings.Cut(one.Component, ":")
				kinds = append(kinds, kind)
			}
			if got := strings.Join(slices.Compact(kinds), " "); got != test.want || err == nil || !strings.Contains(err.Error(), "500") {
				t.Errorf("components = %q, %v; want %q and the answer of the BMC", got, err, test.want)
			}
		})
	}
}

func TestInterruptReachesTheMachineOnce(t *testing.T) {
	eachVendor(t, func(t *testing.T, vendor string) {
		t.Helper()
		m, d := newMachine(t, vendor)
		isOn(m)
		if _, err := d.InjectNMI(t.Context(), m.node, fresh); err != nil {
			t.Fatal(err)
		}
		if got := m.Effects(); got[len(got)-1] != "nmi" {
			t.Errorf("effects = %q, want an interrupt", got)
		}
		if _, err := d.InjectNMI(t.Context(), m.node, driver.Turn{Attempt: driver.Unknown}); err == nil {
			t.Error("an interrupt whose outcome is unknown was repeated")
		}
	})
}

func TestSystemMustBeNamedWhereItIsWrong(t *testing.T) {
	m, d := newMachine(t, "dell")
	m.info(map[string]any{"redfish_system_id": "/redfish/v1/Systems/None"})
	if failure := read(t, d, m.node); failure == nil || failure.Retryable || !strings.Contains(failure.Reason, "404") {
		t.Errorf("failure = %v, want a final one with the answer", failure)
	}
}
