package redfish

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// bootSource is a boot device of the Bare Metal API with its name in Redfish.
type bootSource struct {
	device string
	source schemas.BootSource
}

// bootSources are all boot devices of the driver, in the order of the Bare Metal API.
var bootSources = []bootSource{
	{"pxe", schemas.PxeBootSource},
	{"disk", schemas.HddBootSource},
	{"cdrom", schemas.CdBootSource},
	{"bios", schemas.BiosSetupBootSource},
	{"uefihttp", schemas.UefiHTTPBootSource},
}

// BootDevices lists the boot devices that can be requested. A machine may have fewer.
func (Driver) BootDevices(*node.Node) []string {
	var devices []string
	for _, row := range bootSources {
		devices = append(devices, row.device)
	}
	return devices
}

// BootDevice reads the boot override. Without one the device is unknown.
func (d Driver) BootDevice(ctx context.Context, n *node.Node) (node.BootDevice, error) {
	var device node.BootDevice
	err := d.with(ctx, n, "read boot device", driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err == nil {
			device = bootDeviceOf(system.Boot, c.quirks(system))
		}
		return err
	})
	return device, err
}

// bootDeviceOf returns the boot override in the words of the Bare Metal API. It is empty without an
// override.
func bootDeviceOf(boot schemas.Boot, q quirks) node.BootDevice {
	if boot.BootSourceOverrideEnabled == schemas.DisabledBootSourceOverrideEnabled || boot.BootSourceOverrideEnabled == "" {
		return node.BootDevice{}
	}
	var device node.BootDevice
	for _, row := range bootSources {
		if q.source(row.source) == boot.BootSourceOverrideTarget || row.source == boot.BootSourceOverrideTarget {
			persistent := boot.BootSourceOverrideEnabled == schemas.ContinuousBootSourceOverrideEnabled
			device = node.BootDevice{Device: row.device, Persistent: &persistent}
		}
	}
	return device
}

// source returns the BMC's name for a boot source.
func (q quirks) source(source schemas.BootSource) schemas.BootSource {
	if source == schemas.CdBootSource && q.cdTarget != "" {
		return q.cdTarget
	}
	return source
}

// sourceOn returns the name of a boot source on a system of the BMC. That is the name from the
// quirks, unless the system does not list it: newer boards of the vendor use the usual name.
func (q quirks) sourceOn(system *schemas.ComputerSystem, source schemas.BootSource) schemas.BootSource {
	if own := q.source(source); checkSource(system, own) == nil {
		return own
	}
	return source
}

// quirks returns the quirks of the BMC behind the call.
func (c *call) quirks(system *schemas.ComputerSystem) quirks {
	_, q := quirksOf(c.api.Service.Vendor, system.Manufacturer)
	return q
}

// startsWithin bounds how long a machine may take to start while its BMC accepts no boot device.
const startsWithin = 15 * time.Minute

// SetBootDevice sets the boot override. Where a BMC refuses a persistent override, the override is
// for the next boot only. A BMC that refuses it because the machine is starting is asked again.
func (d Driver) SetBootDevice(ctx context.Context, n *node.Node, device node.BootDevice, turn driver.Turn) (driver.Outcome, error) {
	i := slices.IndexFunc(bootSources, func(row bootSource) bool { return row.device == device.Device })
	if i < 0 {
		return driver.Outcome{}, node.Invalid("The driver redfish has no boot device %q.", node.CutText(device.Device))
	}
	var out driver.Outcome
	err := d.with(ctx, n, "set boot device to "+device.Device, turn, func(c *call) error {
		system, err := c.system()
		if err != nil {
			return err
		}
		q := c.quirks(system)
		target := q.sourceOn(system, bootSources[i].source)
		want := schemas.Boot{BootSourceOverrideTarget: target, BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled}
		if device.Persistent != nil && *device.Persistent {
			want.BootSourceOverrideEnabled = schemas.ContinuousBootSourceOverrideEnabled
		}
		if device.URL != "" {
			want.HTTPBootURI = device.URL
			if system.Boot.BootSourceOverrideMode == schemas.LegacyBootSourceOverrideMode {
				want.BootSourceOverrideMode = schemas.UEFIBootSourceOverrideMode
			}
		}
		if err := checkSource(system, want.BootSourceOverrideTarget); err != nil {
			return err
		}
		err = c.override(system, want, q)
		if saysOneOf(err, []string{startsMessage}) && turn.Elapsed < startsWithin {
			out, err = driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll)}, nil
			if turn.Attempt != driver.Continued {
				out.Note = "The BMC takes no boot device while the machine starts."
			}
		}
		return err
	})
	return out, err
}

// checkSource refuses a boot source that the system does not list.
func checkSource(system *schemas.ComputerSystem, source schemas.BootSource) error {
	allowed := system.Boot.AllowableBootSourceOverrideTargetValues
	if len(allowed) == 0 || slices.Contains(allowed, source) {
		return nil
	}
	return &node.DriverError{Op: "set boot device", Refused: true, Reason: node.CutText(
		"the machine cannot boot from " + string(source) + "; it can boot from " + listed(allowed))}
}

// bootModes are the boot modes of the Bare Metal API.
var bootModes = map[string]schemas.BootSourceOverrideMode{
	"uefi": schemas.UEFIBootSourceOverrideMode,
	"bios": schemas.LegacyBootSourceOverrideMode,
}

// BootMode reads the boot mode; it is empty when the BMC does not tell.
func (d Driver) BootMode(ctx context.Context, n *node.Node) (string, error) {
	var mode string
	err := d.with(ctx, n, "read boot mode", driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err != nil {
			return err
		}
		for name, known := range bootModes {
			if system.Boot.BootSourceOverrideMode == known {
				mode = name
			}
		}
		return nil
	})
	return mode, err
}

// bootModeWithin bounds how long a machine takes to show its new boot mode.
const bootModeWithin = 15 * time.Minute

// verifyPhase is the phase of a change after the machine was restarted for it.
const verifyPhase = "verify"

// SetBootMode makes a turn of a change of the boot mode. A machine that is on and does
// not show the mode at once is restarted.
func (d Driver) SetBootMode(ctx context.Context, n *node.Node, mode string, turn driver.Turn) (driver.Outcome, error) {
	wanted, ok := bootModes[mode]
	if !ok {
		return driver.Outcome{}, node.Invalid("There is no boot mode %q.", node.CutText(mode))
	}
	done, err := recordOf(turn)
	if err != nil {
		return driver.Outcome{}, err
	}
	out, err := d.withRecord(ctx, n, "set boot mode to "+mode, turn, done, func(c *call, done record) (driver.Outcome, error) {
		out, err := c.setBootMode(n, wanted, c.turn)
		if err == nil && !out.Done() {
			out = done.outcome(out)
		}
		return out, err
	})
	if err == nil && out.Done() {
		out.Apply = func(n *node.Node) { n.BootMode = mode }
	}
	return out, err
}

func (c *call) setBootMode(n *node.Node, wanted schemas.BootSourceOverrideMode, turn driver.Turn) (driver.Outcome, error) {
	system, err := c.system()
	switch {
	case err != nil:
		return driver.Outcome{}, err
	case system.Boot.BootSourceOverrideMode == wanted && (turn.Phase == "" || turn.Phase == verifyPhase):
		return driver.Outcome{}, nil
	case turn.Elapsed > bootModeWithin:
		late := &node.DriverError{Op: "set boot mode", Reason: "the machine did not show the mode within " + bootModeWithin.String()}
		return driver.Outcome{}, c.endLate(record{}, late)
	case turn.Phase == verifyPhase:
		return driver.Outcome{Again: driver.PollPause(turn.Elapsed, shortestPoll), Phase: verifyPhase}, nil
	}
	if turn.Phase == "" {
		if system, err = c.patchMode(system, wanted); err != nil {
			return driver.Outcome{}, err
		}
		if system.Boot.BootSourceOverrideMode == wanted || system.PowerState == schemas.OffPowerState {
			return driver.Outcome{}, nil // a machine that is off uses it at its next start
		}
		return driver.Outcome{Again: driver.NextTurn, Phase: planOf(node.Rebooting, n.DisablePowerOff, system.PowerState, "")[0].phase}, nil
	}
	out, err := c.changePower(n, node.Rebooting, turn)
	if err == nil && out.Done() {
		out.Again, out.Phase = driver.NextTurn, verifyPhase
	}
	return out, err
}

func (c *call) patchMode(system *schemas.ComputerSystem, wanted schemas.BootSourceOverrideMode) (*schemas.ComputerSystem, error) {
	boot := schemas.Boot{BootSourceOverrideMode: wanted}
	if c.quirks(system).wholeOverride {
		boot.BootSourceOverrideTarget, boot.BootSourceOverrideEnabled = system.Boot.BootSourceOverrideTarget, system.Boot.BootSourceOverrideEnabled
	}
	if err := system.SetBoot(&boot); err != nil {
		return nil, err
	}
	return c.system()
}

// SecureBoot reads whether secure boot is enabled, from the next boot at the latest.
func (d Driver) SecureBoot(ctx context.Context, n *node.Node) (bool, error) {
	var on bool
	err := d.with(ctx, n, "read secure boot", driver.Turn{}, func(c *call) error {
		secure, err := c.secureBoot(n)
		if err == nil {
			on = secure.SecureBootEnable
		}
		return err
	})
	return on, err
}

// secureBootWithin bounds the restart of a machine, and then the time until it shows the change.
const secureBootWithin = 15 * time.Minute

// SetSecureBoot makes a turn of a change of secure boot, which takes effect at the next boot. Some
// BMCs show the change only after the machine has started, such as an iDRAC, which applies it with
// a BIOS job. For those, the machine is restarted, or started and switched off again if it was off.
func (d Driver) SetSecureBoot(ctx context.Context, n *node.Node, on bool, turn driver.Turn) (driver.Outcome, error) {
	done, err := recordOf(turn)
	if err != nil {
		return driver.Outcome{}, err
	}
	out, err := d.withRecord(ctx, n, "set secure boot", turn, done, func(c *call, done record) (driver.Outcome, error) {
		switch {
		case turn.Phase == "":
			return c.requestSecureBoot(n, on)
		case turn.Phase == verifyPhase:
			return c.verifySecureBoot(n, on, turn, done)
		case done.took(turn) > secureBootWithin:
			return driver.Outcome{}, c.endLate(done, lateSecureBoot())
		}
		return c.restart(n, driver.CleanSteps, c.turn, done)
	})
	if err == nil && out.Done() {
		out.Apply = func(n *node.Node) { n.SecureBoot = &on }
	}
	return out, err
}

// lateSecureBoot returns the error of a change that took too long.
func lateSecureBoot() error {
	return &node.DriverError{Op: "set secure boot", Reason: "the machine did not show the change within " + secureBootWithin.String()}
}

// requestSecureBoot requests the change. After a request whose outcome is unknown, a BMC may refuse
// this one because the earlier one waits for a restart. Then the BMC has accepted the earlier one.
func (c *call) requestSecureBoot(n *node.Node, on bool) (driver.Outcome, error) {
	secure, err := c.secureBoot(n)
	if err != nil || secure.SecureBootEnable == on {
		return driver.Outcome{}, err
	}
	secure.SecureBootEnable = on
	if err := secure.Update(); err != nil && (c.turn.Attempt != driver.Unknown || !isCommitted(err)) {
		return driver.Outcome{}, err
	}
	if secure, err = c.secureBoot(n); err != nil || secure.SecureBootEnable == on {
		return driver.Outcome{}, err
	}
	return c.beginRestart(n, driver.CleanSteps, record{}, 0)
}

// verifySecureBoot waits until the machine shows the change. While a machine starts, its BMC may
// show no secure boot, or answer that it is not ready.
func (c *call) verifySecureBoot(n *node.Node, on bool, turn driver.Turn, done record) (driver.Outcome, error) {
	secure, err := c.secureBoot(n)
	var missing *node.NotSupportedError
	switch {
	case err != nil && !errors.As(err, &missing) && statusOf(err) != http.StatusNotFound && !temporary(err):
		return driver.Outcome{}, err
	case (err != nil || secure.SecureBootEnable != on) && done.took(turn) > secureBootWithin:
		return driver.Outcome{}, lateSecureBoot()
	case err != nil || secure.SecureBootEnable != on:
		return done.outcome(driver.Outcome{Again: driver.PollPause(done.took(turn), shortestPoll), Phase: verifyPhase}), nil
	}
	return done.from(turn).ends(n, driver.Outcome{}), nil
}

func (c *call) secureBoot(n *node.Node) (*schemas.SecureBoot, error) {
	system, err := c.system()
	if err != nil {
		return nil, err
	}
	secure, err := system.SecureBoot()
	if err == nil && secure == nil {
		err = &node.NotSupportedError{Node: n.UUID, Interface: node.ManagementInterface.Field(), Name: "redfish", What: "secure boot"}
	}
	return secure, err
}
