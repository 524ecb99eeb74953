package redfish_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/drivertest"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	simredfish "github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/sim/redfish/redfishtest"
)

// eachVendor runs a test against a BMC of each vendor.
func eachVendor(t *testing.T, test func(t *testing.T, vendor string)) {
	t.Helper()
	for _, vendor := range simredfish.Vendors {
		t.Run(vendor, func(t *testing.T) { test(t, vendor) })
	}
}

// machine is a simulated machine with its BMC, as the tests of the driver see it.
type machine struct {
	*redfishtest.Server
	t      *testing.T
	node   *node.Node
	before int // effects of the preparation
}

// newMachine starts a BMC and returns a driver that closes with the test.
func newMachine(t *testing.T, vendor string, options ...redfishtest.Options) (*machine, redfish.Driver) {
	t.Helper()
	d := redfish.New(redfish.Options{})
	m := &machine{Server: redfishtest.Start(t, vendor, options...), t: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, m.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	m.node = &node.Node{UUID: "11111111-2222-4333-8444-555555555555", Driver: "redfish", DriverInfo: node.ObjectOf(map[string]any{
		"redfish_address": m.URL, "redfish_username": redfishtest.User, "redfish_password": redfishtest.Password,
		"redfish_verify_ca": authorities,
	})}
	return m, d
}

// info changes driver_info.
func (m *machine) info(changes map[string]any) { m.node.DriverInfo = m.node.DriverInfo.With(changes) }

// changes are all kinds of effects.
var changes = []string{
	"power on", "power off", "soft power off", "reboot", "soft reboot", "power cycle", "power button", "nmi", "boot device",
	"attach medium", "detach media", "configure bios", "reset bios", "secure boot", "flash",
}

func (m *machine) Effects() []string { return m.Server.Effects()[m.before:] }
func (m *machine) Refuse()           { m.Fail(effect.Faults{Refuse: 1, Only: changes}) }
func (m *machine) RefuseReads()      { m.Fail(effect.Faults{Refuse: 1, Only: []string{"read"}}) }
func (m *machine) Break()            { m.Fail(effect.Faults{Error: 1, Only: changes}) }
func (m *machine) LoseAnswers()      { m.Fail(effect.Faults{LoseAnswer: 1, Only: changes}) }
func (m *machine) SlowTasks() {
	m.Fail(effect.Faults{TaskTime: effect.Duration(time.Hour), Only: changes})
}
func (m *machine) FailTasks() { m.Fail(effect.Faults{FailTask: 1, Only: changes}) }
func (m *machine) EndTasks() {
	m.Pass(2 * time.Hour)
	m.Server.EndTasks()
}

// finish makes turns until the operation is done or fails.
func finish(ctx context.Context, do func(context.Context, driver.Turn) (driver.Outcome, error)) (driver.Outcome, error) {
	turn := driver.Turn{}
	for {
		out, err := do(ctx, turn)
		if err != nil || out.Done() {
			return out, err
		}
		turn = drivertest.After(turn, out)
	}
}
