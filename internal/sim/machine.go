package sim

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// restartDelay is after which time the ramdisk's service manager starts an
// agent again that ended with an error.
const restartDelay = 30 * time.Second

// Machine is one machine of a fleet. It is safe for concurrent use.
type Machine struct {
	fleet *Fleet
	index int

	// Guarded by fleet.mu.
	status  Status
	answers map[Answer]int

	power sync.Mutex // guards life
	life  *life      // of the present or the last power cycle; nil before the first
}

// life is one power cycle.
type life struct {
	cut   context.CancelFunc // takes the power away
	ended chan struct{}      // closed when nothing of it is left
	over  bool               // the power is gone; guarded by Machine.power
}

func newMachine(f *Fleet, index int) *Machine {
	return &Machine{fleet: f, index: index, status: Status{State: Off}, answers: map[Answer]int{}}
}

// Index is the machine's number in its fleet.
func (m *Machine) Index() int { return m.index }

// Address is where the machine's ramdisk listens.
func (m *Machine) Address() netip.Addr {
	return hardware.AddressIn(m.fleet.options.network(), m.index)
}

// Hardware describes the machine. It is generated at every call.
func (m *Machine) Hardware() hardware.Machine {
	return m.hardwareOptions().Machine(m.fleet.options.Seed, m.index)
}

// Document is what the machine's ramdisk posts. It is generated at every call.
func (m *Machine) Document() []byte {
	return m.hardwareOptions().Document(m.fleet.options.Seed, m.index)
}

func (m *Machine) hardwareOptions() hardware.Options {
	o := m.fleet.options.Hardware
	o.Address = hardware.AddressIn(m.fleet.options.inventory(), m.index)
	return o
}

// Answers is how often the engine gave an answer to this machine.
func (m *Machine) Answers(a Answer) int {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.answers[a]
}

// PowerOn switches the machine on, unless it is on already, and returns before
// it has booted. The only error is [ErrStopped].
func (m *Machine) PowerOn() error {
	m.power.Lock()
	defer m.power.Unlock()
	m.fleet.mu.Lock()
	stopped := m.fleet.stopped
	m.fleet.mu.Unlock()
	if stopped {
		return ErrStopped
	}
	if m.life != nil && !m.life.over {
		return nil
	}
	before := m.life
	ctx, cut := context.WithCancel(context.Background())
	m.life = &life{cut: cut, ended: make(chan struct{})}
	go m.live(ctx, m.life, before)
	return nil
}

// PowerOff cuts the power, unless it is off already, and returns when nothing
// of the ramdisk is left.
func (m *Machine) PowerOff() {
	m.power.Lock()
	l := m.life
	if l != nil {
		l.over = true
	}
	m.power.Unlock()
	if l == nil {
		return
	}
	l.cut()
	<-l.ended
}

// Reboot cuts the power and switches it on again. The only error is [ErrStopped].
func (m *Machine) Reboot() error {
	m.PowerOff()
	return m.PowerOn()
}

// live is the goroutine of one power cycle.
func (m *Machine) live(ctx context.Context, l, before *life) {
	defer close(l.ended)
	defer l.cut()
	if before != nil {
		<-before.ended
	}
	for ctx.Err() == nil {
		err := m.boot(ctx)
		if !errors.Is(err, agent.ErrRebooted) {
			m.settle(ctx, l, err)
			return
		}
	}
	m.enter(Off, "")
}

// settle records how a power cycle ended: without power, or with power and a
// ramdisk that gave up.
func (m *Machine) settle(ctx context.Context, l *life, err error) {
	if ctx.Err() == nil && !errors.Is(err, agent.ErrPoweredOff) {
		m.enter(Failed, err.Error())
		<-ctx.Done() // dead, but powered
	}
	m.power.Lock()
	l.over = true
	m.power.Unlock()
	m.enter(Off, "")
}

// boot starts the ramdisk and runs its agent until it ends. An agent that
// finds no node is started again, as the ramdisk's service manager does.
func (m *Machine) boot(ctx context.Context) error {
	m.enter(Booting, "")
	options := m.fleet.options
	random := rand.New(rand.NewPCG(options.Seed^uint64(m.index)<<32, uint64(m.Status().Boots)))
	bootTime := time.Duration((0.8 + 0.4*random.Float64()) * float64(options.BootTime))
	if err := agent.Sleep(ctx, options.Clock, bootTime); err != nil {
		return err
	}
	config := agent.Config{
		Engine:           options.Engine,
		Client:           options.Client,
		Document:         m.Document,
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
		if noNode := new(agent.LookupError); !errors.As(err, &noNode) {
			return err
		}
		m.enter(Failed, err.Error())
		if err := agent.Sleep(ctx, options.Clock, restartDelay); err != nil {
			return err
		}
	}
}

// watcher keeps a machine's status in step with its agent.
type watcher struct{ machine *Machine }

func (w watcher) Entered(p agent.Phase) { w.machine.enter(stateOf[p], "") }

func (w watcher) Answered(c agent.Call, status int, err error) {
	w.machine.count(Answer{Call: c, Status: status}, err)
}
