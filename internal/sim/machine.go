package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// restartDelay is the time after which the service manager of the ramdisk restarts
// an agent that ended with an error.
const restartDelay = 30 * time.Second

// Machine is one simulated machine. It is safe for concurrent use.
type Machine struct {
	all   *Machines
	index int

	// Guarded by all.mu.
	status  Status
	answers map[Answer]int
	bootLog []string           // of the latest boot, never changed
	hang    context.CancelFunc // ends what the present instance does; nil without one
	hung    bool               // the present instance does nothing, until the state changes
	broken  bool               // instances do nothing

	bmc   *bmc.BMC // nil without one
	disks *disk.Set

	power sync.Mutex  // guards cycle
	cycle *powerCycle // the present or the last one; nil before the first
}

// powerCycle is the time from one power on to the next power off.
type powerCycle struct {
	boot  bmc.Boot           // the newest boot; only the goroutine of the cycle changes it
	cut   context.CancelFunc // powers off
	ended chan struct{}      // closed when its goroutine has ended
	over  bool               // powered off; guarded by Machine.power
	run   int64              // number of the instance's run, 0 without one; guarded by Machine.power
}

func newMachine(all *Machines, index int) *Machine {
	return &Machine{
		all: all, index: index, status: Status{State: Off}, answers: map[Answer]int{},
		disks: disk.NewSet(all.options.Disks, fmt.Sprintf("machine-%d", index)),
	}
}

// name returns the machine's name in the recorder.
func (m *Machine) name() string { return strconv.Itoa(m.index) }

// Index returns the machine's number, counted from zero.
func (m *Machine) Index() int { return m.index }

// Address returns the address that the machine's ramdisk listens on.
func (m *Machine) Address() netip.Addr {
	return hardware.AddressIn(m.all.options.network(), m.index)
}

// Hardware returns the hardware of the machine. It generates the hardware at every call.
func (m *Machine) Hardware() hardware.Machine {
	return m.hardwareOptions().Machine(m.all.options.Seed, m.index)
}

// Document returns the inspection document of the machine. It generates the document at every call.
// A ramdisk that was booted by a script or from a medium posts another part about its boot.
func (m *Machine) Document() []byte {
	return m.hardwareOptions().Document(m.all.options.Seed, m.index)
}

func (m *Machine) hardwareOptions() hardware.Options {
	o := m.all.options.Hardware
	o.Address = hardware.AddressIn(m.all.options.inventory(), m.index)
	if with := m.all.options.BMC; with != nil {
		o = with.hardware(o, m.index)
	}
	return o
}

// Disks returns the content of the machine's disks.
func (m *Machine) Disks() *disk.Set { return m.disks }

// Answers returns how often the engine gave this answer to the machine.
func (m *Machine) Answers(a Answer) int {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.answers[a]
}

// PowerOn powers the machine on, unless it is on already, and returns before
// it has booted. The only error is [ErrStopped].
func (m *Machine) PowerOn() error {
	if m.bmc == nil {
		return m.start(usualBoot)
	}
	if m.all.hasStopped() {
		return ErrStopped
	}
	m.bmc.Switch(true)
	return nil
}

// Boots of machines without a BMC.
var (
	usualBoot   = bmc.Boot{Source: bmc.FromNetwork}
	networkBoot = bmc.Boot{Source: bmc.FromNetwork, Overridden: true}
)

// start begins a power cycle, unless there is one. The only error is [ErrStopped].
func (m *Machine) start(boot bmc.Boot) error {
	m.power.Lock()
	defer m.power.Unlock()
	if m.all.hasStopped() {
		return ErrStopped
	}
	if m.cycle != nil && !m.cycle.over {
		return nil
	}
	before := m.cycle
	ctx, cut := context.WithCancel(context.Background())
	m.cycle = &powerCycle{boot: boot, cut: cut, ended: make(chan struct{})}
	go m.run(ctx, m.cycle, before)
	return nil
}

// PowerOff powers the machine off, unless it is off already, and returns when the
// ramdisk has ended.
func (m *Machine) PowerOff() {
	if m.bmc != nil {
		m.bmc.Switch(false)
	}
	if l := m.cut(); l != nil {
		<-l.ended
	}
}

// cut cuts the power of the present power cycle. It returns the cycle, which ends soon, or nil if
// there was never one.
func (m *Machine) cut() *powerCycle {
	m.power.Lock()
	defer m.power.Unlock()
	if m.cycle == nil {
		return nil
	}
	m.end(m.cycle)
	m.cycle.cut()
	return m.cycle
}

// Reboot powers the machine off and on again. The only error is [ErrStopped].
func (m *Machine) Reboot() error {
	m.PowerOff()
	return m.PowerOn()
}

// BootNetwork restarts the machine and makes it boot from the network once, as a person does in its
// boot menu. The error is [ErrStopped], or says that the machine has a BMC.
func (m *Machine) BootNetwork() error {
	if m.bmc != nil {
		return fmt.Errorf("machine %d has a BMC, whose override says what it boots", m.index)
	}
	m.PowerOff()
	return m.start(networkBoot)
}

// run is the goroutine of one power cycle.
func (m *Machine) run(ctx context.Context, l, before *powerCycle) {
	defer close(l.ended)
	defer l.cut()
	if before != nil {
		<-before.ended
	}
	for ctx.Err() == nil {
		next := m.choose(ctx, l.boot)
		if ctx.Err() != nil {
			break
		}
		err := m.proceed(ctx, l, next)
		if !errors.Is(err, agent.ErrRebooted) {
			m.finish(ctx, l, err)
			return
		}
		if m.bmc == nil {
			l.boot = usualBoot
			continue
		}
		if next, still := m.bmc.Rebooted(l.boot.Number); still {
			l.boot = next
		}
	}
	m.enter(Off, "")
}

// finish records how what was booted has ended. Either the machine is off, or it keeps its power,
// and its ramdisk has given up or runs a rescue system.
func (m *Machine) finish(ctx context.Context, l *powerCycle, err error) {
	if ctx.Err() == nil && !errors.Is(err, agent.ErrPoweredOff) {
		state, reason := Failed, err.Error()
		if errors.Is(err, agent.ErrRescued) {
			state, reason = Rescued, ""
		}
		m.enter(state, reason)
		<-ctx.Done() // still powered
	}
	m.power.Lock()
	m.end(l)
	m.power.Unlock()
	m.enter(Off, "")
}

// boot boots a ramdisk and runs its agent until it ends. An agent that found no node, got no answer
// to its inspection document, or crashed, is restarted, as the service manager of a real ramdisk
// does.
func (m *Machine) boot(ctx context.Context, boot ramdisk) error {
	m.enter(Booting, "")
	options := m.all.options
	random := rand.New(rand.NewPCG(options.Seed^uint64(m.index)<<32, uint64(m.Status().Boots)))
	bootTime := time.Duration((0.8 + 0.4*random.Float64()) * float64(options.BootTime))
	if err := agent.Sleep(ctx, options.Clock, bootTime); err != nil {
		return err
	}
	engine, downloads := m.all.clients.of(boot.insecure)
	machine := m.hardwareOptions()
	machine.Boot = boot.posts
	config := agent.Config{
		Version:          options.AgentVersion,
		CoreOS:           options.CoreOS,
		Engine:           boot.engine,
		CallbackURLs:     boot.callbacks,
		Token:            boot.token,
		Client:           engine,
		Downloads:        downloads,
		Disks:            m.disks,
		UEFI:             boot.uefi,
		Journal:          journal{m},
		Document:         func() []byte { return machine.Document(options.Seed, m.index) },
		Hostname:         m.Hardware().Inspection.Inventory.Hostname,
		Address:          netip.AddrPortFrom(m.Address(), agent.Port),
		TLS:              !options.PlainHTTP,
		HeartbeatTimeout: options.HeartbeatTimeout,
		Random:           random,
		Clock:            options.Clock,
		Observer:         watcher{m},
		Log:              options.Log.With(slog.Int("machine", m.index)),
	}
	for {
		err := agent.New(config).Run(ctx)
		if !startsAgain(err) {
			return err
		}
		m.enter(Failed, err.Error())
		if err := agent.Sleep(ctx, options.Clock, restartDelay); err != nil {
			return err
		}
	}
}

// startsAgain reports whether the service manager restarts an agent that ended with this error.
func startsAgain(err error) bool {
	noNode := new(agent.LookupError)
	return errors.As(err, &noNode) || errors.Is(err, agent.ErrInspectionUnanswered) || errors.Is(err, agent.ErrCrashed)
}

// watcher observes a machine's agent and updates the machine's status.
type watcher struct{ machine *Machine }

func (w watcher) Entered(p agent.Phase) { w.machine.enter(stateOf[p], "") }

func (w watcher) Answered(c agent.Call, status int, err error) {
	w.machine.count(Answer{Call: c, Status: status}, err)
}
