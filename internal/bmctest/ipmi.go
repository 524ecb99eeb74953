package bmctest

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/internal/driver/ipmi"
)

// ipmiTest tries a BMC over IPMI.
type ipmiTest struct {
	machine
	driver ipmi.Driver
}

// checks returns all checks over IPMI. IPMI has no lists of what a BMC can do.
func (t *ipmiTest) checks() []check {
	return []check{
		{name: "session", need: needed, gate: true, run: t.session, advice: "Correct address, user and password, and enable IPMI over LAN for the account; credentials are sent once only, because BMCs lock accounts."},
		{name: "identity", run: t.identity, advice: "Update the firmware of the BMC."},
		{name: "power state", need: needed, run: t.powerState, advice: "Try again in a minute; if it stays, restart the BMC."},
		{name: "boot device", need: bootNeeded, run: t.bootDevice, advice: "Set the boot order in the BIOS."},
		{name: "power cycle", need: askedNeeded, unasked: unasked(t.options.PowerCycle, "--power-cycle"), run: t.cycle, advice: powerAdvice},
	}
}

func (t *ipmiTest) session(ctx context.Context) (finding, error) {
	facts, err := t.driver.Facts(ctx, t.node)
	text := fmt.Sprintf("cipher suite %d", facts.Suite)
	if facts.Firmware != "" {
		text += fmt.Sprintf(", firmware %s, manufacturer %d", facts.Firmware, facts.Manufacturer)
	}
	advice := ""
	if facts.Suite == 3 {
		advice = "Enable cipher suite 17 if the BMC has it: suite 3 authenticates with SHA-1."
	}
	return finding{text: text, advice: advice}, err
}

func (t *ipmiTest) identity(ctx context.Context) (finding, error) {
	identity, err := t.driver.Identity(ctx, t.node)
	return identityFinding(identity), err
}

func (t *ipmiTest) powerState(ctx context.Context) (finding, error) {
	state, err := t.driver.PowerState(ctx, t.node)
	return finding{text: string(state)}, err
}

func (t *ipmiTest) bootDevice(ctx context.Context) (finding, error) {
	now, err := t.driver.BootDevice(ctx, t.node)
	text := "the boot flags can be read"
	if now.Device != "" {
		text += "; now " + now.Device
	}
	return finding{text: text}, err
}
