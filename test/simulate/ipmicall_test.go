package simulate

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/ipmi"
)

// ipmiEvery says that in one in this many runs with computers no BMC is reached through IPMI. In the
// others, one is, unless they are about RAID volumes.
const ipmiEvery = 3

// addIPMI lets the second machine of such a run be reached through IPMI.
func (w *world) addIPMI(c *computer, n *node.Node, i int) {
	if i != 1 || w.makesVolumes() || w.drawn("run", "ipmi")%ipmiEvery == 0 {
		return
	}
	c.ipmi, c.redfish = ipmi.New(c.bmc), nil
	n.Driver, n.Interfaces = "ipmi", ipmiInterfaces
	n.DriverInfo = node.ObjectOf(map[string]any{
		"ipmi_address": fmt.Sprintf("192.0.2.%d", i+101), "ipmi_username": bmcUser, "ipmi_password": bmcPassword,
	})
}

var ipmiInterfaces = func() (chosen node.Interfaces) {
	for kind, name := range map[node.InterfaceKind]string{
		node.BIOSInterface: "no-bios", node.BootInterface: "ipxe", node.ConsoleInterface: "no-console", node.DeployInterface: "direct",
		node.FirmwareInterface: "no-firmware", node.InspectInterface: "agent", node.ManagementInterface: "ipmitool", node.NetworkInterface: "noop",
		node.PowerInterface: "ipmitool", node.RAIDInterface: "no-raid", node.RescueInterface: "no-rescue", node.StorageInterface: "noop",
		node.VendorInterface: "no-vendor",
	} {
		chosen[kind] = name
	}
	return chosen
}()

// usesIPMI reports whether the BMC of a node is reached through IPMI.
func (w *world) usesIPMI(uuid string) bool {
	c := w.computerOf(uuid)
	return c != nil && c.ipmi != nil
}

// ipmiConn sends the datagrams of one session to a BMC. The session has random numbers that do not
// come from the seed, but neither a decision nor the trace depends on them.
type ipmiConn struct {
	net.Conn                 // a pipe through which nothing comes: it waits until the deadline
	ctx      context.Context //nolint:containedctx // of the only call
	r        *replica
	to       *computer
	answers  [][]byte
	// shown is the power state that the BMC has shown since the last command; empty before it has.
	shown node.PowerState
}

// dialIPMI connects to the BMC at an address.
func (r *replica) dialIPMI(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	pipe, _ := net.Pipe()
	return &ipmiConn{Conn: pipe, ctx: ctx, r: r, to: r.w.computerAt(host)}, nil
}

func (c *ipmiConn) Read(into []byte) (int, error) {
	if len(c.answers) == 0 {
		return c.Conn.Read(into)
	}
	n := copy(into, c.answers[0])
	c.answers = c.answers[1:]
	return n, nil
}

// origin says who makes the calls of this connection. IPMI requests do not say that.
func (c *ipmiConn) origin() driver.Origin {
	epoch, request := c.r.leaseEpoch(c.to.uuid), runner.InfoOf(c.ctx).Request
	if request == "" { // a client waits for the call
		request = fmt.Sprintf("request %d", epoch)
	}
	return driver.Origin{Conductor: c.r.name, Epoch: epoch, Request: request}
}

func (c *ipmiConn) Write(datagram []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	command := c.to.ipmi.Asks(datagram)
	p := &point{replica: c.r, kind: atBMCRead, name: c.to.name + " IPMI " + command.Name + " for " + taskName(c.ctx), call: "IPMI reading"}
	if command.Changes {
		p.kind, p.call = atEffect, "IPMI "+command.Name
	}
	v := c.r.w.sched.wait(c.ctx, p)
	answer, err := c.deliver(datagram, command, v)
	if answer != nil {
		c.answers = append(c.answers, answer)
	}
	if v != proceed || answer == nil {
		c.r.dropAcknowledged(c.origin().Request) // this turn cannot store what it has done before
	}
	return len(datagram), err
}

// deliver sends a datagram to the BMC as the verdict says. It returns no answer when a datagram is
// lost.
func (c *ipmiConn) deliver(datagram []byte, command ipmi.Asked, v verdict) ([]byte, error) {
	origin := c.origin()
	switch {
	case c.r.isDead() || v == crashBefore:
		c.r.die()
		return nil, errDead
	case c.ctx.Err() != nil: // the process was paused beyond its deadline
		if command.Changes {
			c.to.noteUnknown()
		}
		return nil, c.ctx.Err()
	case c.to.ignoresRequest(), v == requestLost, v == hangs:
		return nil, nil
	}
	if command.Changes {
		sent := c.to.beginCall(c.ctx, c.r)
		defer c.to.endCall(sent)
		c.checkCommand(command)
	}
	if v == lies {
		c.to.noteLie(origin.Request)
	}
	c.r.checkWork(c.ctx, c.to.machine)
	answer, done, shown := c.to.serveIPMI(c.ctx, datagram, origin, faultsOf[v])
	for _, e := range done {
		c.to.beginEffect(e, c.r)
	}
	c.to.noteInterrupts(c.ctx, done...)
	switch {
	case v == crashAfter:
		c.r.die()
		return nil, errDead
	case v == answerLost:
		return nil, nil
	case command.Changes:
		c.shown = ""
	case command.Power && v == proceed:
		c.shown = shown
	}
	for _, e := range done {
		c.r.noteAcknowledged(e)
	}
	return answer, nil
}

// targetStates are the power states to which commands lead.
var targetStates = map[string]node.PowerState{
	"Chassis Control " + string(bmc.ResetOn): node.PowerOn, "Chassis Control " + string(bmc.ResetForceOff): node.PowerOff,
	"Chassis Control " + string(bmc.ResetGracefulShutdown): node.PowerOff,
}

// checkCommand checks that the engine has read the power state before each command that changes it,
// and sends none for a state that the machine has shown.
func (c *ipmiConn) checkCommand(command ipmi.Asked) {
	target, power := targetStates[command.Name]
	switch {
	case !power:
	case c.shown == "":
		c.r.w.violated("%s: %s is sent for %s before the BMC has shown the power state", c.to.name, command.Name, c.origin().Request)
	case c.shown == target:
		c.r.w.violated("%s: %s is sent for %s, and the machine has shown %q", c.to.name, command.Name, c.origin().Request, target)
	}
	c.shown = ""
}

// serveIPMI has the BMC answer, and returns what it did and the power state that it showed before.
func (c *computer) serveIPMI(ctx context.Context, datagram []byte, origin driver.Origin, faults simeffect.Faults) (answer []byte, done []effect, shown node.PowerState) {
	c.bmcMu.Lock()
	defer c.bmcMu.Unlock()
	if err := c.recorder.SetFaults(c.name, &faults); err != nil {
		panic(err)
	}
	c.observe()
	defer c.observe()
	shown = node.PowerOff
	if state := c.bmc.Power(); state == bmc.On || state == bmc.PoweringOff { // as a chassis status has it
		shown = node.PowerOn
	}
	answer = c.ipmi.Answer(ctx, datagram, netip.AddrFrom4([4]byte{192, 0, 2, 200}))
	for _, e := range c.recorder.Effects(c.name, c.lastSequence) {
		c.lastSequence = e.Sequence
		done = append(done, effect{kind: fake.Kind(e.Kind), detail: e.Detail, origin: origin})
	}
	return answer, done, shown
}

// noteLease notes under which leases a process works on machines that are reached through IPMI.
func (r *replica) noteLease() {
	for _, c := range r.w.computers {
		if c.ipmi == nil {
			continue
		}
		if n, err := r.w.node(c.uuid); err == nil && n.Lease.Holder == r.name {
			r.mu.Lock()
			r.leaseEpochs[c.uuid] = n.Lease.Epoch
			r.mu.Unlock()
		}
	}
}

// leaseEpoch returns the epoch of the lease under which the process has last stored something of a
// node.
func (r *replica) leaseEpoch(uuid string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaseEpochs[uuid]
}

// requestIPMI has a client request a boot device or, more often, what the power state allows.
func (w *world) requestIPMI(r *replica, uuid string) {
	n, err := w.node(uuid)
	on := err == nil && n.PowerState == node.PowerOn
	target := node.PowerOn
	switch drawn := w.sched.rng.IntN(100); {
	case on && drawn < 40:
		target = node.SoftPowerOff
	case on && drawn < 70:
		target = node.Rebooting
	case on || drawn >= 70:
		device := node.BootDevice{Device: pick(w.sched, []string{"pxe", "disk", "cdrom"})}
		w.send(r, uuid, bootDevice, nil, func(ctx context.Context) error { return r.SetBootDevice(ctx, uuid, device) })
		return
	}
	w.send(r, uuid, string(target), nil, func(ctx context.Context) error { return r.SetPower(ctx, uuid, target, 0) })
}

// bootDevice is the name of requests to set the boot device.
const bootDevice = "boot device"

// checkIPMIBootDevices checks that machines with IPMI have got each boot device that a client set,
// unless their BMC has lied.
func (w *world) checkIPMIBootDevices(n *node.Node, m *machine) {
	if !w.usesIPMI(n.UUID) {
		return
	}
	for _, q := range w.requests {
		if q.node == n.UUID && q.name == bootDevice && q.accepted && !m.hasEffect(fake.BootDevice, q.sentAt, q.answeredAt) && !m.liedWithin(q.sentAt, q.answeredAt) {
			w.violated("%s: request %d (%s) was accepted, and the machine knows of none", m.name, q.id, q.name)
		}
	}
}
