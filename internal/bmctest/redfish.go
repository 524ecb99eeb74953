package bmctest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

// redfishTest tries a BMC over Redfish.
type redfishTest struct {
	machine
	driver redfish.Driver

	system redfish.SystemFacts // empty until the system was read
}

// checks returns all checks over Redfish. Those that are not needed tell what the engine can do
// besides switching and booting the machine.
func (t *redfishTest) checks() []check {
	return []check{
		{name: "certificate", run: t.certificate, advice: "Check the address, and that this computer reaches it."},
		{name: "service root", need: needed, gate: true, run: t.service, advice: "Check that Redfish is enabled on the BMC; without it, try --ipmi."},
		{name: "login", need: needed, gate: true, run: t.login, advice: "Correct the user and the password; they are sent once only, because BMCs lock accounts."},
		{name: "system", need: needed, gate: true, run: t.readSystem, advice: "Name the system of the machine with --system."},
		{name: "identity", run: t.identity, advice: "Update the firmware of the BMC; without it, the engine cannot tell that a BMC got another machine."},
		{name: "power state", need: needed, run: t.powerState, advice: "Try again in a minute; if it stays, restart the BMC."},
		{name: "power control", need: needed, run: t.powerControl, advice: "Update the firmware of the BMC, or try --ipmi."},
		{name: "boot device", need: bootNeeded, run: t.bootDevice, advice: "Use virtual media, or set the boot order in the BIOS."},
		{name: "boot mode", run: t.bootMode, advice: "Set it in the BIOS."},
		{name: "secure boot", run: t.secureBoot, advice: "Set it in the BIOS."},
		{name: "virtual media", need: bootNeeded, run: t.virtualMedia, advice: "Check whether the BMC needs a license for it, or boot over the network."},
		{name: "BIOS settings", run: t.bios, advice: "Leave out BIOS steps for this machine."},
		{name: "firmware versions", run: t.firmware, advice: "Update the firmware of the BMC."},
		{name: "firmware updates", run: t.updates, advice: "Update firmware by other means."},
		{name: "storage", run: t.storage, advice: "Let the ramdisk inspect the machine."},
		{name: "network interfaces", run: t.ports, advice: "Let the ramdisk inspect the machine, or create its ports by hand."},
		{name: "power cycle", need: askedNeeded, unasked: unasked(t.options.PowerCycle, "--power-cycle"), run: t.cycle, advice: powerAdvice},
		{name: "attach a medium", need: askedNeeded, unasked: unasked(t.options.Medium != "", "--medium"), run: t.medium, advice: "Check that the BMC reaches the server of the image."},
	}
}

// unasked returns the flag with which a check is requested, in words. It is empty if the check was
// requested.
func unasked(asked bool, flag string) string {
	if asked {
		return ""
	}
	return "asked for with " + flag
}

func (t *redfishTest) service(ctx context.Context) (finding, error) {
	facts, err := t.driver.ServiceFacts(ctx, t.node)
	parts := []string{"Redfish " + facts.RedfishVersion}
	for _, name := range []string{facts.Vendor, facts.Product} {
		if name != "" {
			parts = append(parts, name)
		}
	}
	return finding{text: join(parts)}, err
}

func (t *redfishTest) login(ctx context.Context) (finding, error) {
	facts, err := t.driver.LoginFacts(ctx, t.node)
	switch {
	case err != nil:
		return finding{}, err
	case t.options.User == "":
		return finding{text: "the BMC asks for no credentials", advice: "Give the BMC an account: everybody in its network can switch the machine."}, nil
	case facts.Session:
		return finding{text: "the BMC grants a session"}, nil
	}
	return finding{
		text:   "the BMC grants no session; basic authentication works",
		advice: "End sessions of others, or set redfish_auth_type of the node to basic.",
	}, nil
}

func (t *redfishTest) readSystem(ctx context.Context) (finding, error) {
	facts, err := t.driver.SystemFacts(ctx, t.node)
	if err != nil {
		return finding{}, err
	}
	t.system = facts
	text := fmt.Sprintf("%s %s at %s; ", facts.Manufacturer, facts.Model, facts.Path)
	if len(facts.Quirks) == 0 {
		return finding{text: text + "no quirk applies"}, nil
	}
	return finding{text: text + "quirks of " + facts.QuirkVendor + ": " + strings.Join(facts.Quirks, "; ")}, nil
}

func (t *redfishTest) identity(ctx context.Context) (finding, error) {
	identity, err := t.driver.Identity(ctx, t.node)
	return identityFinding(identity), err
}

// identityFinding returns what identifies a machine.
func identityFinding(identity node.MachineIdentity) finding {
	var parts []string
	if identity.UUID != "" {
		parts = append(parts, "UUID "+identity.UUID)
	}
	if identity.SerialNumber != "" {
		parts = append(parts, "serial number "+identity.SerialNumber)
	}
	if len(parts) == 0 {
		return finding{
			fails: true, text: "the BMC tells neither a UUID nor a serial number",
			advice: "Set them in the BIOS; without them, the engine cannot tell that a BMC got another machine.",
		}
	}
	return finding{text: join(parts)}
}

func (t *redfishTest) powerState(ctx context.Context) (finding, error) {
	state, err := t.driver.PowerState(ctx, t.node)
	return finding{text: string(state)}, err
}

func (t *redfishTest) powerControl(context.Context) (finding, error) {
	s := t.system
	text := join(s.Targets)
	if len(s.Lacking) > 0 {
		text += "; not " + join(s.Lacking)
	}
	if len(s.Resets) == 0 {
		text += "; the BMC does not say which resets it has"
	}
	if !slices.Contains(s.Targets, node.PowerOn) || !slices.Contains(s.Targets, node.PowerOff) {
		return finding{fails: true, text: text, advice: "Update the firmware of the BMC, or try --ipmi; it has the resets: " + join(s.Resets) + "."}, nil
	}
	return finding{text: text}, nil
}

func (t *redfishTest) bootDevice(ctx context.Context) (finding, error) {
	s := t.system
	if !s.Override || len(s.BootDevices) == 0 {
		return finding{
			fails: true, text: "the system has no boot override; its boot sources: " + join(s.BootSources),
			advice: "Use virtual media, or set the boot order in the BIOS.",
		}, nil
	}
	now, err := t.driver.BootDevice(ctx, t.node)
	if err != nil {
		return finding{}, err
	}
	text := join(s.BootDevices)
	if now.Device != "" {
		text += "; now " + now.Device
	}
	if len(s.BootSources) == 0 {
		text += "; the BMC does not say which it has"
	}
	return finding{text: text}, nil
}

func (t *redfishTest) bootMode(ctx context.Context) (finding, error) {
	mode, err := t.driver.BootMode(ctx, t.node)
	if err == nil && mode == "" {
		return finding{fails: true, text: "the BMC does not tell it", advice: "Set it in the BIOS."}, nil
	}
	return finding{text: mode}, err
}

func (t *redfishTest) secureBoot(ctx context.Context) (finding, error) {
	on, err := t.driver.SecureBoot(ctx, t.node)
	if on {
		return finding{text: "enabled"}, err
	}
	return finding{text: "disabled"}, err
}
