// Package bmc models management controllers that do not exist, and each one's computer as its BMC
// sees it: power, boot settings, BIOS attributes, secure boot, virtual media, firmware, RAID
// volumes and tasks. It speaks no protocol; packages redfish and ipmi do.
//
// A BMC does what a real one does in the background, but only when it is called next: nothing runs
// between two calls. So tests move a clock, and ten thousand BMCs cost memory only. An
// effect.Recorder remembers what was done to a BMC and by whom, and decides which faults the BMC
// has.
package bmc

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// Times says how long a machine takes for what it does. The zero value means no time.
type Times struct {
	PowerOn    time.Duration // from the request until the machine has power
	PowerOff   time.Duration // from a request to cut the power, or to reset, until it is done
	Shutdown   time.Duration // from a request to shut down until the operating system has done so
	PowerCycle time.Duration // without power during a power cycle
	POST       time.Duration // from power on until an operating system boots
	Flash      time.Duration // to write the firmware of one component
	BMCRestart time.Duration // how long the BMC cannot be reached after its own update
	Volume     time.Duration // to make or delete a volume while the machine runs
}

// RealisticTimes returns the times of a usual rack server, rounded.
func RealisticTimes() Times {
	return Times{
		PowerOn: 3 * time.Second, PowerOff: 4 * time.Second, Shutdown: 30 * time.Second, PowerCycle: 10 * time.Second,
		POST: 2 * time.Minute, Flash: 3 * time.Minute, BMCRestart: 4 * time.Minute, Volume: 20 * time.Second,
	}
}

// Faster returns times that are shortened by a factor above zero.
func (t Times) Faster(factor float64) Times {
	for _, d := range []*time.Duration{&t.PowerOn, &t.PowerOff, &t.Shutdown, &t.PowerCycle, &t.POST, &t.Flash, &t.BMCRestart, &t.Volume} {
		*d = time.Duration(float64(*d) / factor)
	}
	return t
}

// Config is what many BMCs share. It must not change once a BMC uses it.
type Config struct {
	// Profile is the vendor's.
	Profile *Profile
	Times   Times
	// User and Password are the only account.
	User, Password string
	// Recorder keeps the log and the faults.
	Recorder *effect.Recorder
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Client fetches firmware files; nil means http.DefaultClient.
	Client *http.Client
	// Wake calls a function after a time. A BMC with a computer uses it when the power changes, so
	// that the computer starts and stops in time although nobody calls the BMC. If it is nil, the
	// computer starts and stops when the BMC is called next.
	Wake func(after time.Duration, act func())
}

// Computer is what a BMC switches on and off. Its methods must neither wait nor call the BMC.
type Computer interface {
	// PowerOn gives the computer power, and it boots. The computer has no power before.
	PowerOn(Boot)
	// PowerOff cuts the computer's power.
	PowerOff()
	// Shutdown asks the operating system to shut down, and reports whether it reacts. If it does,
	// the BMC cuts the power when [Times].Shutdown has passed.
	Shutdown() bool
	// On reports whether the computer still has power: an operating system may power it off.
	On() bool
}

// BMC is one management controller. It is safe for concurrent use.
type BMC struct {
	config   *Config
	name     string
	hardware func() hardware.Machine
	computer Computer

	mu        sync.Mutex
	on        bool
	plan      []step // in the order of their times
	boots     int64  // number of the newest boot
	override  Override
	unhandled bool // the override is boot flags of IPMI, and the firmware has not handled them
	toHandle  bool // the firmware is to handle the boot flags at the next boot
	mode      Mode // empty means the mode of the hardware
	bios      biosState
	secure    secureState
	media     []Medium // one per slot; nil while none was ever inserted
	versions  map[string]string
	tasks     []*Task
	raid      raidState
	listeners []Subscription
	newest    int64 // number of the newest task
	restarts  int64
	downUntil time.Time
}

// New returns the BMC of a machine that is off. name is the machine's name in the recorder.
// Whenever the BMC reads the hardware, it calls machine. A nil computer boots nothing.
func New(config *Config, name string, machine func() hardware.Machine, computer Computer) *BMC {
	config.Recorder.Register(name)
	return &BMC{
		config: config, name: name, hardware: machine, computer: computer,
		override: Override{Target: TargetNone, Enabled: Disabled},
	}
}

// Name returns the machine's name in the recorder.
func (b *BMC) Name() string { return b.name }

// Profile returns the profile of the BMC's vendor.
func (b *BMC) Profile() *Profile { return b.config.Profile }

// Hardware returns the hardware of the machine.
func (b *BMC) Hardware() hardware.Machine { return b.hardware() }

// UUID returns the UUID of the system; the same machine always has the same one.
func (b *BMC) UUID() [16]byte { return b.hardware().UUID() }

// Config returns what the BMC shares with others.
func (b *BMC) Config() *Config { return b.config }

// Now returns the time by the BMC's clock.
func (b *BMC) Now() time.Time {
	if b.config.Clock == nil {
		return time.Now()
	}
	return b.config.Clock()
}

// actDue does what is due, such as a change of power. It is called with the lock held, before
// anything is read.
func (b *BMC) actDue() (now time.Time) {
	now = b.Now()
	for len(b.plan) > 0 && !now.Before(b.plan[0].at) {
		next := b.plan[0]
		b.plan = b.plan[1:]
		b.perform(next)
	}
	if len(b.plan) == 0 && b.on && b.computer != nil && !b.computer.On() {
		b.on = false // by its operating system
	}
	b.endDueTasks(now)
	return now
}

// ActDue does what is due by the clock.
func (b *BMC) ActDue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
}

// Restarts returns how often the BMC itself has restarted. A restart ends all sessions.
func (b *BMC) Restarts() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.restarts
}

// Restart restarts the BMC itself, not the machine.
func (b *BMC) Restart(c *Call) error {
	return b.apply(c, change{
		kind: RestartBMC,
		do: func(now time.Time, _ effect.Fate) *Task {
			b.restarts++
			b.downUntil = now.Add(b.config.Times.BMCRestart)
			return nil
		},
	})
}

// Reachable reports whether the BMC answers at all; it does not while it restarts.
func (b *BMC) Reachable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.actDue().Before(b.downUntil)
}

// Call is one request to a BMC, by any protocol.
type Call struct {
	User    string // name under which the client authenticated
	Client  string // address that the request came from
	Request string // identity of the request, if the client gave it one
	// Fate is what becomes of the call. Reads says that it changes nothing. The BMC sets both.
	Fate  effect.Fate
	Reads bool

	number int64 // in the log; 0 if the call is not logged
}

// Read counts a call that changes nothing and decides what becomes of it.
func (b *BMC) Read(c *Call) {
	c.Reads, c.Fate = true, b.config.Recorder.Draw(b.name, effect.Reading, false)
}

// Answers waits until the BMC answers the call, and returns false when it never does. Either way,
// the log then says that the call has ended.
func (b *BMC) Answers(ctx context.Context, c *Call) bool {
	answers := c.Fate.Wait(ctx)
	if c.number > 0 {
		b.config.Recorder.End(c.number, b.Now())
	}
	return answers
}

// change is something that a call wants to be done.
type change struct {
	kind   Kind
	detail string
	// check returns the reason not to do it; nil means that there is never one.
	check func(now time.Time) *RefusedError
	// do does it, and returns the task that it has made, if any.
	do func(now time.Time, fate effect.Fate) *Task
}

// apply does what a call asks for, unless the BMC refuses it or the call meets a fault, and logs
// the call. A refused call is not logged. The error is a *RefusedError.
func (b *BMC) apply(c *Call, wanted change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.actDue()
	c.Fate = b.config.Recorder.Draw(b.name, string(wanted.kind), wanted.kind == Flash)
	if c.Fate.Spared() && wanted.check != nil {
		if refused := wanted.check(now); refused != nil {
			return refused
		}
	}
	call := effect.Effect{
		Machine: b.name, Time: now.UTC(), Kind: string(wanted.kind), Detail: wanted.detail,
		User: c.User, Client: c.Client, Request: c.Request, Fault: c.Fate.Fault(),
	}
	if c.Fate.Spared() && !c.Fate.Lie {
		call.Task = "done"
		if t := wanted.do(now, c.Fate); t != nil {
			call.Task = "task-" + strconv.FormatInt(t.Number, 10)
		}
	}
	c.number = b.config.Recorder.Add(call)
	b.actDue() // a machine that boots at once is logged after the call that switched it on
	return nil
}

// Kind is a kind of effect in the log.
type Kind string

// The kinds of effects. The first three, and those of boot devices and media, have the same names
// as on the machines of package effect.
const (
	PowerOn         Kind = "power on"
	PowerOff        Kind = "power off"
	SoftPowerOff    Kind = "soft power off"
	Reboot          Kind = "reboot"
	SoftReboot      Kind = "soft reboot"
	PowerCycle      Kind = "power cycle"
	PowerButton     Kind = "power button"
	NMI             Kind = "nmi"
	BootDevice      Kind = "boot device"
	AttachMedium    Kind = "attach medium"
	DetachMedia     Kind = "detach media"
	ConfigureBIOS   Kind = "configure bios"
	ResetBIOS       Kind = "reset bios"
	SecureBoot      Kind = "secure boot"
	ResetSecureBoot Kind = "reset secure boot keys"
	Flash           Kind = "flash"
	CreateVolume    Kind = "create volume"
	DeleteVolume    Kind = "delete volume"
	Subscribe       Kind = "create subscription"
	Unsubscribe     Kind = "delete subscription"
	// InterruptFlash is not a call: the machine lost its power or was restarted while firmware was
	// being written.
	InterruptFlash Kind = "interrupt flash"
	RestartBMC     Kind = "restart bmc"
)

// kinds has all kinds.
var kinds = map[Kind]bool{
	PowerOn: true, PowerOff: true, SoftPowerOff: true, Reboot: true, SoftReboot: true, PowerCycle: true,
	PowerButton: true, NMI: true, BootDevice: true, AttachMedium: true, DetachMedia: true, ConfigureBIOS: true,
	ResetBIOS: true, SecureBoot: true, ResetSecureBoot: true, Flash: true, CreateVolume: true, DeleteVolume: true,
	Subscribe: true, Unsubscribe: true, InterruptFlash: true, RestartBMC: true,
}

// Known reports whether a BMC has effects of a kind, for effect.RecorderOptions.
func Known(kind string) bool { return kinds[Kind(kind)] }
