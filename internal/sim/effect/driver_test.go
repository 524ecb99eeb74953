package effect_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
)

// hardware is fake hardware whose machines are reached over HTTP.
var hardware = fake.New(fake.Remote())

// interfaceOf returns an interface of the fake hardware.
func interfaceOf[A any](t *testing.T, kind node.InterfaceKind) A {
	t.Helper()
	ability, ok := hardware.Interfaces()[kind].(A)
	if !ok {
		t.Fatalf("fake hardware has no such ability of its %s interface", kind)
	}
	return ability
}

// operation is a drivertest.Operation on a machine behind HTTP.
type operation struct {
	effects  []string
	unclear  drivertest.Repeating
	unwaited bool
	off      bool // whether the machine is off before
	turn     func(t *testing.T, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error)
}

func (o operation) test(t *testing.T) {
	t.Helper()
	drivertest.Attempts(t, drivertest.Operation{
		Effects: o.effects, Unclear: o.unclear, Unwaited: o.unwaited,
		New: func(t *testing.T) (drivertest.Machine, drivertest.TurnFunc) {
			t.Helper()
			m := newMachine(t)
			if !o.off {
				m.call("POST", "/machines/m1/effects", `{"kind":"power on"}`, nil)
			}
			m.before = len(m.log())
			n := &node.Node{UUID: "u", Driver: "fake-hardware", DriverInfo: node.ObjectOf(map[string]any{"fake_machine": m.url + "/machines/m1"})}
			return m, func(ctx context.Context, turn driver.Turn) (driver.Outcome, error) { return o.turn(t, ctx, n, turn) }
		},
	})
}

// power is a power change.
func power(target node.PowerState, off bool, effects ...string) operation {
	return operation{
		effects: effects, unclear: drivertest.ReadsFirst, off: off,
		turn: func(t *testing.T, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			t.Helper()
			return interfaceOf[driver.Power](t, node.PowerInterface).SetPower(ctx, n, target, turn)
		},
	}
}

// step is a step of cleaning or deployment.
func step(kind driver.StepKind, over node.InterfaceKind, name, does string, unclear drivertest.Repeating) operation {
	return operation{
		effects: []string{does}, unclear: unclear,
		turn: func(t *testing.T, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			t.Helper()
			return interfaceOf[driver.Stepper](t, over).RunStep(ctx, n, kind, node.Step{Interface: over.String(), Step: name}, turn)
		},
	}
}

// with is an operation that consists of one call of an ability.
func with[A any](kind node.InterfaceKind, does string, unclear drivertest.Repeating, call func(A, context.Context, *node.Node, driver.Turn) (driver.Outcome, error)) operation {
	return operation{
		effects: []string{does}, unclear: unclear,
		turn: func(t *testing.T, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			t.Helper()
			return call(interfaceOf[A](t, kind), ctx, n, turn)
		},
	}
}

var operations = map[string]operation{
	"power on":       power(node.PowerOn, true, "power on"),
	"power off":      power(node.PowerOff, false, "power off"),
	"soft power off": power(node.SoftPowerOff, false, "soft power off"),
	"reboot":         power(node.Rebooting, false, "power off", "power on"),
	"soft reboot":    power(node.SoftRebooting, false, "soft power off", "power on"),

	"erase_devices":          step(driver.CleanSteps, node.DeployInterface, "erase_devices", "wipe", drivertest.Refrains),
	"erase_devices_metadata": step(driver.CleanSteps, node.DeployInterface, "erase_devices_metadata", "wipe", drivertest.Refrains),
	"erase_pstore":           step(driver.CleanSteps, node.DeployInterface, "erase_pstore", "wipe", drivertest.Refrains),
	"burnin_cpu":             step(driver.CleanSteps, node.DeployInterface, "burnin_cpu", "burn in", drivertest.Repeats),
	"deploy":                 step(driver.DeploySteps, node.DeployInterface, "deploy", "write", drivertest.Refrains),
	"update":                 step(driver.ServiceSteps, node.FirmwareInterface, "update", "flash", drivertest.Refrains),
	"apply_configuration":    step(driver.CleanSteps, node.BIOSInterface, "apply_configuration", "configure", drivertest.Repeats),
	"create_configuration":   step(driver.CleanSteps, node.RAIDInterface, "create_configuration", "configure", drivertest.Refrains),
	"delete_configuration":   step(driver.CleanSteps, node.RAIDInterface, "delete_configuration", "configure", drivertest.Refrains),
	"clear_job_queue":        step(driver.CleanSteps, node.ManagementInterface, "clear_job_queue", "configure", drivertest.Repeats),

	"tear down":    with(node.DeployInterface, "tear down", drivertest.Repeats, driver.Deploy.TearDown),
	"rescue":       with(node.RescueInterface, "rescue", drivertest.Repeats, driver.Rescue.Rescue),
	"unrescue":     with(node.RescueInterface, "unrescue", drivertest.Repeats, driver.Rescue.Unrescue),
	"boot ramdisk": with(node.BootInterface, "boot ramdisk", drivertest.Repeats, driver.RamdiskBoot.BootRamdisk),
	"interrupt":    with(node.ManagementInterface, "nmi", drivertest.Refrains, driver.Interrupter.InjectNMI),
	"boot device": with(node.ManagementInterface, "boot device", drivertest.Repeats,
		func(a driver.Management, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return a.SetBootDevice(ctx, n, node.BootDevice{Device: "disk"}, turn)
		}),
	"boot mode": with(node.ManagementInterface, "configure", drivertest.Repeats,
		func(a driver.BootModes, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return a.SetBootMode(ctx, n, "bios", turn)
		}),
	"secure boot": with(node.ManagementInterface, "configure", drivertest.Repeats,
		func(a driver.SecureBoot, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return a.SetSecureBoot(ctx, n, true, turn)
		}),
	"attach medium": with(node.ManagementInterface, "attach medium", drivertest.Repeats,
		func(a driver.VirtualMedia, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return a.AttachMedium(ctx, n, node.Medium{DeviceType: "cdrom"}, turn)
		}),
	"detach media": with(node.ManagementInterface, "detach media", drivertest.Repeats,
		func(a driver.VirtualMedia, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			return a.DetachMedia(ctx, n, nil, turn)
		}),
}

func TestOperationsOfFakeHardwareOnAMachine(t *testing.T) {
	for name, o := range operations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.test(t)
		})
	}
	t.Run("vendor method", func(t *testing.T) {
		t.Parallel()
		o := with(node.VendorInterface, "vendor method", drivertest.Repeats,
			func(a driver.Vendor, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
				_, err := a.Call(ctx, n, "POST", "first_method", node.ObjectOf(map[string]any{"bar": "baz"}), turn)
				return driver.Outcome{}, err
			})
		o.unwaited = true
		o.test(t)
	})
}

func TestPowerOfFakeHardwareOnAMachine(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(gone.Close)
	at := func(url string) *node.Node {
		return &node.Node{UUID: "u", DriverInfo: node.ObjectOf(map[string]any{"fake_machine": url + "/machines/m1"})}
	}
	drivertest.Power(t, drivertest.PowerCase{
		Power: hardware, Reachable: at(newMachine(t).url), Unreachable: at(gone.URL),
	})
}

// TestMachineKnowsEveryKindOfTheDriver checks that machines know every kind of effect that the
// driver knows.
func TestMachineKnowsEveryKindOfTheDriver(t *testing.T) {
	m := newMachine(t)
	n := &node.Node{DriverInfo: node.ObjectOf(map[string]any{"fake_machine": m.url + "/machines/m1"})}
	machine, ok := fake.Remote()(n)
	if !ok {
		t.Fatal("the node has no machine")
	}
	for _, kind := range kinds {
		task, err := machine.Do(t.Context(), fake.Effect{
			Kind: kind, Detail: "d", Origin: driver.Origin{Conductor: "c", Epoch: 3, Request: "r"},
		})
		if err != nil || task.State != fake.Done || task.ID == "" {
			t.Errorf("%s: %+v, %v, want it done", kind, task, err)
		}
		log := m.log()
		last := log[len(log)-1]
		if last.Kind != string(kind) || last.Detail != "d" || last.Conductor != "c" || last.Epoch != 3 || last.Request != "r" || last.Task != task.ID {
			t.Errorf("%s: logged as %+v", kind, last)
		}
	}
}

func TestSettingsAreReadFromTheMachineThatKeepsThem(t *testing.T) {
	m := newMachine(t)
	n := &node.Node{UUID: "u", Driver: "fake-hardware", DriverInfo: node.ObjectOf(map[string]any{"fake_machine": m.url + "/machines/m1"})}
	run := func(over node.InterfaceKind, name string, settings ...any) {
		t.Helper()
		step := node.Step{Interface: over.String(), Step: name, Args: map[string]any{"settings": settings}}
		turn := driver.Turn{Origin: driver.Origin{Request: name + strconv.Itoa(len(m.log()))}}
		if out, err := interfaceOf[driver.Stepper](t, over).RunStep(t.Context(), n, driver.CleanSteps, step, turn); err != nil || !out.Done() {
			t.Fatalf("%s: %+v, %v, want it done", name, out, err)
		}
	}
	shown := func(want string) {
		t.Helper()
		settings, err := interfaceOf[driver.BIOS](t, node.BIOSInterface).BIOSSettings(t.Context(), &node.Node{UUID: "v", DriverInfo: n.DriverInfo})
		if err != nil || settings[0].Name != "BootMode" || settings[0].Value != want {
			t.Errorf("BIOS settings = %+v, %v, want BootMode %s", settings, err, want)
		}
	}
	shown("Uefi")
	run(node.BIOSInterface, "apply_configuration", map[string]any{"name": "BootMode", "value": "Bios"})
	shown("Bios")
	run(node.BIOSInterface, "factory_reset")
	shown("Uefi")
	run(node.FirmwareInterface, "update", map[string]any{"component": "bmc", "url": "https://192.0.2.1/bmc-2.1"})
	components, err := interfaceOf[driver.Firmware](t, node.FirmwareInterface).FirmwareComponents(t.Context(), n)
	if err != nil || components[1].CurrentVersion != "https://192.0.2.1/bmc-2.1" {
		t.Errorf("firmware = %+v, %v, want the version that was flashed", components, err)
	}
	m.call("PUT", "/machines/m1/faults", `{"refuse": 1, "only": ["read"]}`, nil)
	_, err = interfaceOf[driver.BIOS](t, node.BIOSInterface).BIOSSettings(t.Context(), n)
	var failure *node.DriverError
	if !errors.As(err, &failure) || failure.Refused {
		t.Errorf("error = %v, want a DriverError that says nothing of calls before", err)
	}
}
