package conductor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// telling is a management interface that shows addresses of network interfaces.
type telling struct {
	fake.Hardware
	macs []string
	err  error
}

func (m telling) NetworkAddresses(context.Context, *node.Node) ([]string, error) {
	return slices.Clone(m.macs), m.err
}

// toldBy gives a conductor's nodes of fake hardware this management interface.
func toldBy(t *testing.T, c *Conductor, m telling) {
	t.Helper()
	m.Hardware = fake.New(func(*node.Node) (fake.Machine, bool) { return nil, false })
	built := driver.Implementations{}
	for kind, implementation := range m.Interfaces() {
		built[kind] = map[string]driver.Implementation{"fake": implementation}
	}
	built[node.ManagementInterface]["fake"] = m
	drivers, err := driver.New(driver.Config{EnabledHardwareTypes: []string{"fake-hardware"}}, built)
	if err != nil {
		t.Fatal(err)
	}
	c.drivers = drivers
}

func TestNodeWithoutPortsGetsThoseThatTheBMCShows(t *testing.T) {
	const first, second, mine, taken = "3c:ec:ef:00:00:01", "3c:ec:ef:00:00:02", "3c:ec:ef:00:00:03", "3c:ec:ef:00:00:04"
	shown := telling{macs: []string{first, second, usbLink, "00:00:00:00:00:00", "01:00:5e:00:00:01", "00:11:22:33:44:55:66:77"}}
	for name, tc := range map[string]struct {
		bmc    telling
		before bool
		want   map[string]bool
	}{
		"none":         {bmc: shown, want: map[string]bool{first: true, second: true}},
		"has one":      {bmc: shown, before: true, want: map[string]bool{mine: false}},
		"shows none":   {want: map[string]bool{}},
		"one is taken": {bmc: telling{macs: []string{taken, first}}, want: map[string]bool{first: true}},
		"all taken":    {bmc: telling{macs: []string{taken}}, want: map[string]bool{}},
		"does not say": {bmc: telling{err: errors.New("it is busy")}, want: map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWorld(t)
			w.Conductor = w.idle("conductor-1")
			toldBy(t, w.Conductor, tc.bmc)
			n := w.fake(node.Inspecting, nil)
			w.addPort(w.fake(node.Active, nil), taken)
			if tc.before {
				w.addPort(n, mine)
			}
			operation := w.portsOfBMC(n)
			if operation.Skip {
				t.Fatal("the operation is left out")
			}
			write, err := operation.Read(t.Context(), n)
			if err != nil {
				write = operation.OnFailure(err)
			}
			if write != nil {
				w.write(func(tx *store.Tx) error { return write(tx, n) })
			}
			wantPorts(t, w, n, tc.want)
			if rows := len(w.history(n)); rows != 1 && !tc.before {
				t.Errorf("%d rows in the history, want one that says so", rows)
			}
		})
	}
}

func TestPortsAreMadeBeforeTheRamdiskIsBooted(t *testing.T) {
	c, _, n := withRamdisk(t, inState(node.Inspecting), func(n *node.Node) {
		n.Driver, n.Interfaces[node.ManagementInterface], n.Interfaces[node.PowerInterface] = "redfish", "redfish", "redfish"
		n.Interfaces[node.InspectInterface], n.Interfaces[node.BootInterface] = "agent", "ipxe"
	})
	c.cfg.Inspection.UnmanagedBoot = true
	operations, err := c.inspectionOperations(runner.Task{Work: &store.Work{ID: 7}, Node: n})
	if err != nil {
		t.Fatal(err)
	}
	names := unskipped(operations)
	made, booted := slices.Index(names, portsOfBMCName), slices.Index(names, bootRamdiskName)
	if made < 0 || booted < made {
		t.Errorf("operations %q, want %q before %q", names, portsOfBMCName, bootRamdiskName)
	}
}
