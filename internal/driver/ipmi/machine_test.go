package ipmi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/ipmi/ipmitest"
	simredfish "github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

var fresh = driver.Turn{}

// vendors are those of the BMCs that the tests run against.
var vendors = simredfish.Vendors

// machine is a simulated machine with its BMC, as the tests of the driver see it.
type machine struct {
	*ipmitest.Server
	t      *testing.T
	node   *node.Node
	before int // effects of the preparation
}

func newMachine(t *testing.T, vendor string, options ...redfishtest.Options) (*machine, ipmi.Driver) {
	t.Helper()
	m := &machine{Server: ipmitest.Start(t, vendor, options...), t: t}
	m.node = &node.Node{UUID: "11111111-2222-4333-8444-555555555555", Driver: "ipmi", DriverInfo: node.ObjectOf(map[string]any{
		"ipmi_address": m.Address.Addr().String(), "ipmi_port": m.Address.Port(),
		"ipmi_username": redfishtest.User, "ipmi_password": redfishtest.Password,
	})}
	return m, ipmi.New(ipmi.Options{})
}

// info changes driver_info.
func (m *machine) info(changes map[string]any) { m.node.DriverInfo = m.node.DriverInfo.With(changes) }

// changes are all kinds of effects that IPMI has.
var changes = []string{"power on", "power off", "soft power off", "reboot", "power cycle", "nmi", "boot device"}

func (m *machine) Effects() []string { return m.Server.Effects()[m.before:] }
func (m *machine) Refuse()           { m.Fail(effect.Faults{Refuse: 1, Only: changes}) }
func (m *machine) RefuseReads()      { m.Fail(effect.Faults{Refuse: 1, Only: []string{"read"}}) }
func (m *machine) Break()            { m.Fail(effect.Faults{Error: 1, Only: changes}) }
func (m *machine) LoseAnswers()      { m.Fail(effect.Faults{LoseAnswer: 1, Only: changes}) }
func (m *machine) SlowTasks() {
	m.Fail(effect.Faults{TaskTime: effect.Duration(time.Hour), Only: changes})
}
func (m *machine) FailTasks()   { m.Fail(effect.Faults{FailTask: 1, Only: changes}) }
func (m *machine) EndTasks()    { m.Pass(2 * time.Hour) }
func (m *machine) ForgetTasks() {} // IPMI has none

// read reads the power state and returns how that failed.
func read(t *testing.T, d ipmi.Driver, n *node.Node) *node.DriverError {
	t.Helper()
	_, err := d.PowerState(t.Context(), n)
	var failure *node.DriverError
	if err != nil && !errors.As(err, &failure) {
		t.Fatalf("error = %v, want a DriverError", err)
	}
	return failure
}

// finish makes turns until the operation is done or fails.
func finish(ctx context.Context, do func(context.Context, driver.Turn) (driver.Outcome, error)) error {
	turn := driver.Turn{}
	for {
		out, err := do(ctx, turn)
		if err != nil || out.Done() {
			return err
		}
		turn = driver.Turn{Attempt: driver.Continued, Elapsed: turn.Elapsed + max(out.Again, out.Park), Phase: out.Phase, Handle: out.Handle}
	}
}
