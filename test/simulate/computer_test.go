package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	simeffect "github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/ipmi"
)

// computer is a machine that boots, from its disk or into the ramdisk with its agent. The log of
// its machine has what is done to it.
type computer struct {
	*machine
	mac     string
	address netip.AddrPort // of its agent
	disks   *disk.Set
	bmc     *bmc.BMC      // nil without one
	redfish http.Handler  // nil without one
	ipmi    *ipmi.Service // nil without one
	raid    raidController
	// recorder has the effects of the BMC. The log of the machine has those up to lastSequence.
	bmcMu        sync.Mutex // held while the BMC serves a request
	recorder     *simeffect.Recorder
	lastSequence int64
	// untrackedUpdates are updates for which the BMC has no task any more.
	untrackedUpdates []untrackedUpdate

	stateMu   sync.Mutex
	ignored   int         // how many requests the BMC does not answer
	cycle     *powerCycle // the present or the last one
	bootCount int
	callCount int          // of its agents to the engine
	agent     http.Handler // of the agent that listens; nil when none does
	next      http.Handler // of the agent that starts
	// listedCommands are the IDs of the commands that the agent lists.
	listedCommands []string
	journal
}

var (
	_ bmc.Computer  = (*computer)(nil)
	_ agent.Journal = (*computer)(nil)
)

// powerCycle is the time from one power on to the next power off.
type powerCycle struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when its goroutine has ended
	off    bool
}

// PowerOn boots the machine. A machine that has power restarts.
func (c *computer) PowerOn(b bmc.Boot) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	before := c.cycle
	if before != nil {
		before.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cycle = &powerCycle{cancel: cancel, ended: make(chan struct{})}
	go c.run(ctx, c.cycle, before, b)
}

// PowerOff takes the power.
func (c *computer) PowerOff() {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.cycle != nil {
		c.cycle.off = true
		c.cycle.cancel()
	}
}

// Shutdown reports that whatever runs reacts.
func (*computer) Shutdown() bool { return true }

// On reports whether the machine has power.
func (c *computer) On() bool {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.cycle != nil && !c.cycle.off
}

// pressPowerButton has a person press the power button.
func (c *computer) pressPowerButton() {
	c.notePressed()
	switch {
	case c.bmc != nil:
		c.bmc.Switch(c.bmc.Power() != bmc.On)
	case c.On():
		c.PowerOff()
	default:
		c.PowerOn(bmc.Boot{Source: bmc.FromNetwork})
	}
}

// close cuts the power and returns when nothing runs any more.
func (c *computer) close() {
	c.PowerOff()
	c.stateMu.Lock()
	last := c.cycle
	c.stateMu.Unlock()
	if last != nil {
		<-last.ended
	}
}

// ignoreRequests makes the BMC leave this many requests unanswered.
func (c *computer) ignoreRequests(requests int) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.ignored = requests
}

// ignoresRequest reports whether the BMC does not answer a request.
func (c *computer) ignoresRequest() bool {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.ignored--
	return c.ignored >= 0
}

// run is the goroutine of one power cycle.
func (c *computer) run(ctx context.Context, cycle, before *powerCycle, b bmc.Boot) {
	defer close(cycle.ended)
	if before != nil {
		<-before.ended
	}
	for ctx.Err() == nil {
		err := c.boot(ctx, b)
		switch {
		case errors.Is(err, agent.ErrPoweredOff):
			c.stateMu.Lock()
			cycle.off = true
			c.stateMu.Unlock()
			return
		case !errors.Is(err, agent.ErrRebooted):
			<-ctx.Done() // still powered
		case c.bmc != nil:
			if next, still := c.bmc.Rebooted(b.Number); still {
				b = next
			}
		}
	}
}

// boot boots the machine once and returns when what runs then has ended.
func (c *computer) boot(ctx context.Context, b bmc.Boot) error {
	c.w.sched.wait(ctx, &point{kind: atYield, name: c.name + " boots"})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	params, source, ok := c.bootSource(b)
	if !ok {
		c.w.sched.note("%s boots from %s", c.name, source)
		return nil
	}
	c.w.sched.note("%s boots the ramdisk from %s", c.name, source)
	c.bootCount++
	body, _ := document(c.mac, c.bootCount)
	posted := func() []byte { return body }
	random := rand.New(rand.NewPCG(c.w.seed, uint64(c.drawn("boots", c.bootCount))))
	config := agent.Config{
		Engine: params["ipa-api-url"], Client: &http.Client{Transport: callbacks{c}}, Downloads: &http.Client{Transport: files{}},
		Disks: c.disks, UEFI: true, Journal: c, Document: posted, Hostname: c.name, Address: c.address, Listen: c.listen, Random: random,
	}
	if to := params["ipa-inspection-callback-url"]; to != "" {
		config.CallbackURLs = []string{to}
	}
	if err := agent.Sleep(ctx, agent.RealClock, 3*time.Second+time.Duration(random.Int64N(int64(12*time.Second)))); err != nil {
		return err
	}
	for {
		a := agent.New(config)
		c.noteStarting(a.Handler())
		err := a.Run(ctx)
		c.w.sched.note("the agent of %s ends: %v", c.name, endReason(err))
		noNode := new(agent.LookupError)
		if !errors.As(err, &noNode) && !errors.Is(err, agent.ErrInspectionUnanswered) && !errors.Is(err, agent.ErrCrashed) {
			return err
		}
		if err := agent.Sleep(ctx, agent.RealClock, 30*time.Second+time.Duration(random.Int64N(int64(time.Second)))); err != nil {
			return err
		}
	}
}

// endReason is the reason why an agent ended, without what differs from run to run.
func endReason(err error) string {
	for _, known := range []error{
		context.Canceled, agent.ErrPoweredOff, agent.ErrRebooted, agent.ErrNoToken, agent.ErrCrashed, agent.ErrVanished, agent.ErrInspectionUnanswered,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprintf("%T", err)
}

// bootSource returns what the machine boots: the kernel parameters of the ramdisk, or false for
// something else. A machine without a BMC and without a system on its disk boots the ramdisk of
// another server.
func (c *computer) bootSource(b bmc.Boot) (params map[string]string, source bmc.Source, ok bool) {
	n, err := c.w.node(c.uuid)
	if err != nil {
		n = &node.Node{}
	}
	served, serves := node.RamdiskBootOf(n)
	_, _, installed := c.disks.Bootable()
	medium := bootURL + served.Path(c.uuid, node.BootMediumFile)
	isServed := func(m bmc.BootMedium) bool { return serves && m.Image == medium }
	if slices.ContainsFunc(b.Media, isServed) && b.Image(bmc.FromCD) != medium {
		c.w.violated("%s finds a medium of an earlier boot before the one that is served", c.name)
	}
	for _, source := range b.Sources(c.disks.BootEntry()) {
		switch {
		case source == bmc.FromNetwork && serves,
			source == bmc.FromCD && serves && b.Image(source) == medium:
			c.checkServed(n)
			return paramsOf(served.KernelParams), source, true
		case source == bmc.FromNetwork && c.bmc == nil && !installed:
			return map[string]string{"ipa-api-url": engineURL}, "another server", true
		case source == bmc.FromDisk && installed:
			return nil, source, false
		}
	}
	return nil, "nothing", false
}

// URLs in the simulated network.
const (
	engineURL = "http://engine"
	bootURL   = "http://boot"
)

// paramsOf takes a command line of a kernel apart.
func paramsOf(line string) map[string]string {
	params := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		params[name] = value
	}
	return params
}

// checkServed compares a boot of the ramdisk with the state of the node. Once the phase that needs
// the ramdisk has ended, with its cleanup, nothing may be served.
func (c *computer) checkServed(n *node.Node) {
	if class := n.ProvisionState.Class(); (class == node.Stable || class == node.Failed) && len(c.w.works(n)) == 0 {
		c.w.violated("%s boots the ramdisk that is still served in state %q", c.name, n.ProvisionState)
	}
}

// drawn returns a number that looks random and depends on the seed.
func (c *computer) drawn(purpose string, number int) uint32 {
	return c.w.drawn(fmt.Sprintf("%s %d", c.name, number), purpose)
}

// noteStarting notes the handler of an agent that starts. Such an agent lists no commands yet. It
// is called before the agent listens.
func (c *computer) noteStarting(handler http.Handler) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.next, c.listedCommands = handler, nil
}

// listen opens the listener of an agent. Connections are made without it, see agentConn.
func (c *computer) listen(context.Context, string, string) (net.Listener, error) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.agent = c.next
	return &listener{c: c, closed: make(chan struct{})}, nil
}

// agentHandler returns the handler of the agent that listens, or nil if none does.
func (c *computer) agentHandler() http.Handler {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.agent
}

// listener is that of an agent, which accepts nothing.
type listener struct {
	c      *computer
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.c.stateMu.Lock()
		defer l.c.stateMu.Unlock()
		l.c.agent = nil
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.c.address) }
