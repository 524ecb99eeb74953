package conductor

import (
	"context"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/objectstore/objectstoretest"
	"github.com/ingot-metal/ingot/internal/store"
)

// showing is an inspect interface that reads a machine through its BMC.
type showing struct {
	fake.Hardware
	machine machine
}

func (s showing) ReadInventory(context.Context, *node.Node) ([]byte, error) {
	return []byte(`{"inventory":` + s.machine.inventory() + `}`), nil
}

// throughBMC starts a conductor whose nodes of fake hardware are inspected through their
// BMC, which shows this machine.
func throughBMC(t *testing.T, m machine, changes ...func(*Config)) *world {
	t.Helper()
	w := emptyWorld(t)
	w.showThroughBMC(m, changes...)
	return w
}

// showThroughBMC starts the conductor of throughBMC.
func (w *world) showThroughBMC(m machine, changes ...func(*Config)) {
	w.t.Helper()
	hardware := fake.New(func(*node.Node) (fake.Machine, bool) { return nil, false })
	built := driver.Implementations{}
	for kind, implementation := range hardware.Interfaces() {
		built[kind] = map[string]driver.Implementation{"fake": implementation}
	}
	built[node.InspectInterface]["fake"] = showing{hardware, m}
	drivers, err := driver.New(driver.Config{EnabledHardwareTypes: []string{"fake-hardware"}}, built)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Conductor = w.idle("conductor-1", append(changes, func(c *Config) { c.Discovery.Driver = "fake-hardware" })...)
	w.drivers = drivers
	w.run(w.Conductor)
}

func TestNodeInspectedThroughItsBMCGetsTheAddressesOfADiscoveredMachine(t *testing.T) {
	m := unknown(1)
	w := throughBMC(t, m)
	same := w.enrol(machine{arch: "x86_64", macs: m.macs[:1]})
	partly := w.enrol(machine{arch: "x86_64", macs: []string{foreignMAC, m.macs[1]}})
	w.wantRoom(8)
	n := w.fake(node.Manageable, nil)
	w.send(n, "inspect")
	w.awaitWorkDone()
	n = w.stored(n.UUID)
	if n.ProvisionState != node.Manageable || n.LastError != "" {
		t.Errorf("state %q, last_error %q; want the node inspected", n.ProvisionState, n.LastError)
	}
	wantPorts(t, w, n, map[string]bool{m.macs[0]: true, m.macs[1]: true})
	w.wantMACs(n, m.macs...)
	w.wantGone(same)
	w.wantRemark(n, "had been discovered as node "+same.UUID)
	w.wantRemark(n, "node "+partly.UUID+" gave up 1 of its 2 MAC addresses")
	partly = w.stored(partly.UUID)
	w.wantMACs(partly, foreignMAC)
	wantPorts(t, w, partly, map[string]bool{foreignMAC: true})
	if !node.IsAddressesTaken(partly.LastError) || !strings.Contains(partly.LastError, n.UUID) {
		t.Errorf("last_error = %q, want who took which address", partly.LastError)
	}
	w.wantRemark(partly, partly.LastError)
	w.wantRoom(9)
}

func TestLaterInspectionThroughTheBMCDiscoversNothing(t *testing.T) {
	m := unknown(1)
	w := throughBMC(t, m)
	n := w.enrol(m)
	w.wantDiscovered(n, true)
	w.send(n, "manage")
	w.awaitWorkDone()
	if _, err := w.UpdateNode(t.Context(), n.UUID, func(n *node.Node) error {
		n.Interfaces[node.InspectInterface] = "fake"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.send(n, "inspect")
	w.awaitWorkDone()
	w.wantDiscovered(n, false)
}

// wantDiscovered checks whether the plugin data says that the inspection enrolled its machine.
func (w *world) wantDiscovered(n *node.Node, want bool) {
	w.t.Helper()
	data, err := w.Inspection(w.t.Context(), n.UUID)
	if err != nil || strings.Contains(string(data.PluginData), `"auto_discovered"`) != want {
		w.t.Errorf("result = %v, %v; want auto_discovered: %v", data, err, want)
	}
}

// wantRoom checks how many more machines may be enrolled until there are ten.
func (w *world) wantRoom(want int) {
	w.t.Helper()
	w.read(func(tx *store.Tx) error {
		room, err := w.discovered.left(tx, 10, true)
		if room != want {
			w.t.Errorf("room for %d more of 10 discovered nodes, want %d", room, want)
		}
		return err
	})
}

// inspectedIntoObjects is throughBMC with a node that was inspected, and whose result is in an object store.
func inspectedIntoObjects(t *testing.T, m machine) (*world, *node.Node, *objectstoretest.Server) {
	t.Helper()
	server := objectstoretest.Start(t)
	w := throughBMC(t, m, keeping(InObjectStore, server.Bucket()))
	n := w.fake(node.Manageable, nil)
	w.send(n, "inspect")
	w.awaitWorkDone()
	w.wantInventory(n, m)
	return w, n, server
}

func TestInspectionThroughTheBMCWaitsForTheObjectStore(t *testing.T) {
	w, n, server := inspectedIntoObjects(t, unknown(1))
	server.Stop()
	w.send(n, "inspect")
	w.eventually("the node to say what it waits for", func() bool {
		return strings.HasPrefix(w.stored(n.UUID).LastError, "Inspection waits for the object store")
	})
	server.Resume()
	w.eventually("the store to be noticed", func() bool {
		_, err := w.Inspection(t.Context(), n.UUID)
		return err == nil
	})
	w.endWaits(n)
	if n = w.stored(n.UUID); n.ProvisionState != node.Manageable || n.LastError != "" {
		t.Errorf("node is in %q with last_error %q", n.ProvisionState, n.LastError)
	}
}

func TestInspectionThroughTheBMCNeedsNoObjectStoreThatIsNoLongerConfigured(t *testing.T) {
	m := unknown(1)
	w, n, _ := inspectedIntoObjects(t, m)
	if err := w.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.showThroughBMC(m, keeping(InDatabase, nil))
	w.send(n, "inspect")
	w.awaitWorkDone()
	if n = w.stored(n.UUID); n.ProvisionState != node.Manageable || n.LastError != "" {
		t.Errorf("node is in %q with last_error %q, want it inspected", n.ProvisionState, n.LastError)
	}
	w.wantInventory(n, m)
}

func TestInspectionThroughTheBMCLeavesPortsOfRegisteredNodesAlone(t *testing.T) {
	m := unknown(1)
	w := throughBMC(t, m)
	other, n := w.create("fake-hardware"), w.fake(node.Manageable, nil)
	w.addPort(other, m.macs[0])
	w.send(n, "inspect")
	w.awaitWorkDone()
	wantPorts(t, w, n, map[string]bool{m.macs[1]: true})
	wantPorts(t, w, other, map[string]bool{m.macs[0]: false})
	if rows := strings.Join(w.history(other), "\n"); strings.Contains(rows, "MAC address") {
		t.Errorf("history = %q, want nothing taken", rows)
	}
}
