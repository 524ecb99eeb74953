package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	ipmidriver "github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	redfishdriver "github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
	"github.com/ingot-metal/ingot/internal/store"
)

// computersEvery says that one in this many runs has computers; the other runs have fake machines.
const computersEvery = 4

// heartbeatTimeout is how long an agent may send no heartbeat.
const heartbeatTimeout = 5 * time.Minute

// The account of the BMCs.
const (
	bmcUser     = "operator"
	bmcPassword = "opensesame-1"
)

// computerStates are those in which nodes with a computer begin.
var computerStates = []node.State{node.Enroll, node.Manageable, node.Manageable, node.Available, node.Available, node.Active, node.Active}

// addComputer stores a node and its machine. The last one has no BMC.
func (w *world) addComputer(i int) error {
	yes := true
	mac := fmt.Sprintf("52:54:00:12:34:%02x", i+1)
	n := &node.Node{
		UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1), Name: fmt.Sprintf("node-%d", i+1), AutomatedClean: &yes,
		Driver: "redfish", ProvisionState: pick(w.sched, computerStates), PowerState: node.PowerOff, Interfaces: redfishInterfaces,
		DriverInfo: node.ObjectOf(map[string]any{
			"redfish_address": fmt.Sprintf("https://192.0.2.%d", i+101), "redfish_username": bmcUser, "redfish_password": bmcPassword,
		}),
		Properties: node.ObjectOf(map[string]any{"cpu_arch": "x86_64"}),
	}
	n.Interfaces[node.BootInterface] = pick(w.sched, []string{"redfish-virtual-media", "redfish-virtual-media", "ipxe", "http-ipxe"})
	if i == 2 {
		n.Driver, n.ProvisionState, n.PowerState, n.Interfaces, n.DriverInfo = "manual-management", node.Enroll, node.PowerOn, manualInterfaces, nil
	}
	c := &computer{
		machine: w.newMachine(n), mac: mac, address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 9999), disks: disk.NewSet("", ""),
	}
	if n.ProvisionState == node.Active {
		c.install()
	}
	if i < 2 {
		c.addBMC(pick(w.sched, redfish.Vendors), i)
		w.addRAID(c, n)
		w.addIPMI(c, n, i)
	}
	w.nodes, w.machines[n.UUID], w.computers = append(w.nodes, n.UUID), c.machine, append(w.computers, c)
	return w.db.Write(context.Background(), func(tx *store.Tx) error {
		if err := tx.CreateNode(n); err != nil {
			return err
		}
		return tx.CreatePort(&node.Port{UUID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i+1), NodeID: n.ID, Address: mac})
	})
}

// install puts a system on the disk.
func (c *computer) install() {
	writer, err := c.disks.Write("/dev/sda", 1<<30)
	if err == nil {
		_, err = writer.Write(diskImage)
	}
	if err == nil {
		image, _ := writer.Image()
		err = writer.Commit(image)
	}
	if err != nil {
		panic(err)
	}
}

// addBMC gives the machine a BMC of a vendor. Its times differ from those of the engine and of
// other machines, so that no two timers end in the same moment.
func (c *computer) addBMC(vendor string, i int) {
	odd := time.Duration(101+37*i) * time.Nanosecond
	c.recorder = simeffect.NewRecorder(simeffect.RecorderOptions{Known: bmc.Known})
	profile, times := redfish.Profile(vendor), bmc.RealisticTimes().Faster(8)
	times.Flash = 2 * time.Minute
	c.bmc = bmc.New(&bmc.Config{
		Profile: profile, Times: times, User: bmcUser, Password: bmcPassword, Recorder: c.recorder,
		Client: &http.Client{Transport: files{}},
		Wake:   func(after time.Duration, settle func()) { time.AfterFunc(after+odd, settle) },
	}, c.name, func() hardware.Machine { return hardwareOf(profile.Manufacturer, i) }, c)
	c.redfish = redfish.New(c.bmc)
}

// hardwareOf returns the hardware of machine i of any world. Each machine has a UUID of its own.
func hardwareOf(manufacturer string, i int) hardware.Machine {
	type key struct {
		manufacturer string
		i            int
	}
	if known, ok := generated.Load(key{manufacturer, i}); ok {
		return known.(hardware.Machine)
	}
	made := hardware.Options{Kind: hardware.Server, Manufacturer: manufacturer}.Machine(1, i)
	generated.Store(key{manufacturer, i}, made)
	return made
}

var generated sync.Map

var redfishInterfaces = func() (chosen node.Interfaces) {
	for kind, name := range map[node.InterfaceKind]string{
		node.BIOSInterface: "redfish", node.ConsoleInterface: "no-console", node.DeployInterface: "direct", node.FirmwareInterface: "redfish",
		node.InspectInterface: "agent", node.ManagementInterface: "redfish", node.NetworkInterface: "noop", node.PowerInterface: "redfish",
		node.RAIDInterface: "agent", node.RescueInterface: "no-rescue", node.StorageInterface: "noop", node.VendorInterface: "no-vendor",
	} {
		chosen[kind] = name
	}
	return chosen
}()

// computerAt returns the machine whose BMC or agent has an address.
func (w *world) computerAt(host string) *computer {
	for i, c := range w.computers {
		if host == c.address.Addr().String() || host == fmt.Sprintf("192.0.2.%d", i+101) {
			return c
		}
	}
	panic("no machine at " + host)
}

// computerOf returns the machine of a node; nil for fake ones.
func (w *world) computerOf(uuid string) *computer {
	for _, c := range w.computers {
		if c.uuid == uuid {
			return c
		}
	}
	return nil
}

// dependencies is what drivers of computers need, as the engine makes it.
func (r *replica) dependencies() builtin.Dependencies {
	running := func(n *node.Node) bool { return agent.Alive(n, r.w.db.Now(), heartbeatTimeout) }
	silent := func(n *node.Node) bool {
		return !running(n) && r.w.db.Now().Sub(r.ListeningSince()) > heartbeatTimeout
	}
	inRamdisk := ramdisk.New(ramdisk.Options{Agents: r.agentCalls(), Running: running, Silent: silent, Ports: r.portsOf})
	r.redfish = redfishdriver.New(redfishdriver.Options{Transport: bmcCalls{r}})
	return builtin.Dependencies{
		IPMI:       ipmidriver.New(ipmidriver.Options{Dial: r.dialIPMI}),
		AgentAlive: running, AgentSilent: silent, AgentReboot: inRamdisk.Reboot, Redfish: r.redfish, Ramdisk: inRamdisk,
		Netboot: netboot.Config{
			Serves: true, URL: bootURL, APIURL: engineURL, BootLoader: "http://images/boot-loader",
			Default: netboot.Ramdisk{Kernel: "http://images/kernel", Initial: "http://images/initial"},
		},
		Images: images{},
	}
}

func (r *replica) portsOf(ctx context.Context, n *node.Node) (ports []*node.Port, err error) {
	err = (&database{r}).Read(ctx, func(tx *store.Tx) error {
		ports, err = tx.PortsOf(n.ID)
		return err
	})
	return ports, err
}

// images has all images.
type images struct{}

func (images) Check(string) error                              { return nil }
func (images) Prepare(context.Context, string) (string, error) { return "", nil }

// instanceInfo is what a client sets before it deploys.
var instanceInfo = func() node.Object {
	sum := sha256.Sum256(diskImage)
	return node.ObjectOf(map[string]any{
		"image_source": "http://images/disk.raw", "image_disk_format": "raw",
		"image_os_hash_algo": "sha256", "image_os_hash_value": hex.EncodeToString(sum[:]),
	})
}()
