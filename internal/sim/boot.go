package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/internal/sim/firmware"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// restartPause is how long a restart by a script takes. It bounds the rate of requests by scripts
// that do nothing but restart.
const restartPause = 10 * time.Second

// choice is what a machine has found to boot.
type choice struct {
	ramdisk *ramdisk // nil if it boots none
	system  *System  // nil if it boots none
	restart bool     // it restarts
	source  bmc.Source
	what    string // URL or device
	reason  string // why it boots nothing or restarts
}

// ramdisk is how a ramdisk was booted, as far as its agent depends on it.
type ramdisk struct {
	engine    string
	callbacks []string
	token     string
	insecure  bool
	uefi      bool           // it was booted in UEFI mode
	posts     *hardware.Boot // the boot that the agent posts; nil means that of the hardware
}

// choose tries the devices of a boot in turn, and returns the first that boots or stops the search.
func (m *Machine) choose(ctx context.Context, b bmc.Boot) choice {
	trace := new(firmware.Trace)
	var reasons []string
	for _, source := range b.Sources(m.disks.BootEntry()) {
		c, result := m.try(ctx, b, source, trace)
		if result.Action == firmware.NextDevice {
			trace.Add("%s: %s", source, result.Reason)
			reasons = append(reasons, fmt.Sprintf("%s: %s", source, result.Reason))
			continue
		}
		c.source = source
		if c.reason != "" {
			c.reason = fmt.Sprintf("%s: %s", source, c.reason)
		}
		m.keepTrace(trace)
		return c
	}
	m.keepTrace(trace)
	return choice{source: b.Source, reason: strings.Join(reasons, "; ")}
}

// try boots from one device.
func (m *Machine) try(ctx context.Context, b bmc.Boot, source bmc.Source, trace *firmware.Trace) (choice, firmware.Result) {
	next := func(reason string) firmware.Result {
		return firmware.Result{Action: firmware.NextDevice, Reason: reason}
	}
	var result firmware.Result
	switch source {
	case bmc.FromNetwork:
		result = m.fromNetwork(ctx, b, trace)
	case bmc.FromDisk:
		result = firmware.Result{Action: firmware.StartDisk}
	case bmc.FromCD, bmc.FromUSB:
		target := b.Image(source)
		if target == "" {
			return choice{}, next("it is empty")
		}
		m.enter(Starting, "")
		result = m.all.loader.Medium(ctx, target, otherMedia(b, target), m.bootsUEFI(b), trace)
	case bmc.FromURL:
		if !m.bootsUEFI(b) {
			return choice{}, next("only UEFI boots from a URL")
		}
		m.enter(Starting, "")
		result = m.all.loader.Medium(ctx, b.URL, otherMedia(b, b.URL), true, trace)
	default:
		return choice{}, next("nothing boots from there")
	}
	switch result.Action {
	case firmware.StartKernel:
		if !startsAgent(result.Parameters) {
			return choice{system: &System{Source: result.Source}, what: result.Source}, result
		}
		started := ramdiskOf(result.Parameters)
		started.uefi = m.bootsUEFI(b)
		if m.all.options.BootURL != "" || source != bmc.FromNetwork {
			started.posts = bootOf(result.Parameters, started.uefi)
		}
		if started.uefi && b.SecureBoot {
			return choice{}, next("secure boot is on, and no ramdisk is signed")
		}
		return choice{ramdisk: started, what: result.Source}, result
	case firmware.StartDisk:
		device, content, ok := m.disks.Bootable()
		if !ok {
			return choice{}, next("there is nothing that boots on it")
		}
		return choice{system: &System{Device: device, Content: content}, what: device}, result
	}
	return choice{restart: result.Action == firmware.Restart, reason: result.Reason}, result
}

// fromNetwork boots from the network: with the script of the options, if there is one. Without a
// script, the network offers a ramdisk whose agent reports to Options.Engine. Machines boot this
// ramdisk if they are told to boot from the network, or have no operating system.
func (m *Machine) fromNetwork(ctx context.Context, b bmc.Boot, trace *firmware.Trace) firmware.Result {
	options := m.all.options
	if options.BootURL != "" {
		m.enter(Starting, "")
		return m.all.loader.Script(ctx, options.BootURL, m.identity(b), trace)
	}
	if _, _, installed := m.disks.Bootable(); installed && (!b.Overridden || b.Source != bmc.FromNetwork) {
		return firmware.Result{Action: firmware.NextDevice, Reason: "there is an operating system, and nobody asks for the network"}
	}
	engine := strings.TrimSuffix(strings.TrimRight(options.Engine, "/"), "/v1")
	return firmware.Result{Action: firmware.StartKernel, Source: engine, Parameters: map[string]string{
		engineParameter: options.Engine, callbackParameter: engine + "/v1/continue_inspection",
	}}
}

// identity returns what scripts can read about the machine.
func (m *Machine) identity(b bmc.Boot) firmware.Identity {
	h := m.Hardware()
	inventory := h.Inspection.Inventory
	return firmware.Identity{
		MAC: inventory.Interfaces[h.BootNIC].MACAddress, UUID: uuid.UUID(h.UUID()).String(), Address: m.Address().String(),
		Hostname: inventory.Hostname, Serial: inventory.SystemVendor.SerialNumber, Manufacturer: inventory.SystemVendor.Manufacturer,
		Product: inventory.SystemVendor.ProductName, Architecture: inventory.CPU.Architecture,
		UEFI: m.bootsUEFI(b),
	}
}

// bootsUEFI reports whether a boot is in UEFI mode. Without a BMC, the hardware decides.
func (m *Machine) bootsUEFI(b bmc.Boot) bool {
	return b.Mode == bmc.UEFI || b.Mode == "" && m.Hardware().Inspection.Inventory.Boot.CurrentBootMode == "uefi"
}

// otherMedia returns the images of all media except target.
func otherMedia(b bmc.Boot, target string) (others []string) {
	for _, medium := range b.Media {
		if medium.Image != target {
			others = append(others, medium.Image)
		}
	}
	return others
}

// Kernel parameters that the agent reads.
const (
	engineParameter   = "ipa-api-url"
	callbackParameter = "ipa-inspection-callback-url"
	tokenParameter    = "ipa-agent-token"
	insecureParameter = "ipa-insecure"
	networkParameter  = "BOOTIF" // the interface that was booted from
)

// startsAgent reports whether a kernel belongs to a ramdisk with an agent: its parameters name an
// engine. Any other kernel is that of an operating system that runs from what was booted.
func startsAgent(parameters map[string]string) bool {
	return parameters[engineParameter] != "" || parameters[callbackParameter] != ""
}

// ramdiskOf reads the parameters of a kernel as the agent does.
func ramdiskOf(parameters map[string]string) *ramdisk {
	return &ramdisk{
		engine:    parameters[engineParameter],
		callbacks: strings.FieldsFunc(parameters[callbackParameter], func(r rune) bool { return r == ',' }),
		token:     parameters[tokenParameter],
		insecure:  trueWords[strings.ToLower(parameters[insecureParameter])],
	}
}

// bootOf returns what the agent finds out about its boot.
func bootOf(parameters map[string]string, uefi bool) *hardware.Boot {
	boot := &hardware.Boot{CurrentBootMode: "bios"}
	if uefi {
		boot.CurrentBootMode = "uefi"
	}
	if from, named := parameters[networkParameter]; named {
		boot.PXEInterface = &from
	}
	return boot
}

// trueWords are the values of parameters that count as true.
var trueWords = map[string]bool{"1": true, "t": true, "true": true, "on": true, "y": true, "yes": true}

// proceed boots what was chosen. It returns when that has ended: with the cause of ctx when the
// power is cut, with agent.ErrRebooted after a restart by a script, or with the error of
// agent.Agent.Run.
func (m *Machine) proceed(ctx context.Context, l *powerCycle, c choice) error {
	switch {
	case c.ramdisk != nil:
		m.noteBoot("ramdisk", c)
		return m.boot(ctx, *c.ramdisk)
	case c.system != nil:
		m.noteBoot("operating system", c)
		m.change(OS, "", c.system)
		if c.system.Device != "" {
			m.runInstance(ctx, l, c.system)
		}
	case c.restart:
		if err := agent.Sleep(ctx, m.all.options.Clock, restartPause); err != nil {
			return err
		}
		return agent.ErrRebooted
	default:
		m.enter(On, c.reason)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// noteBoot adds a boot to the log of effects.
func (m *Machine) noteBoot(what string, c choice) {
	now := m.all.options.Clock.Now().UTC()
	m.all.recorder.Add(effect.Effect{
		Machine: m.name(), Time: now, Ended: now, Kind: effect.Boot, Task: effectDone,
		Detail: fmt.Sprintf("%s from %s %s", what, c.source, c.what),
	})
}

// effectDone is the value of Effect.Task for what was done.
const effectDone = "done"

// keepTrace keeps what the machine did to boot, and logs it.
func (m *Machine) keepTrace(trace *firmware.Trace) {
	lines := trace.Lines()
	for _, line := range lines {
		m.all.options.Log.Debug("Boot", slog.Int("machine", m.index), slog.String("line", line))
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.bootLog = lines
}

// BootLog returns what the machine did in its latest boot: what it downloaded, which lines of
// scripts failed, and why it did not boot from a device.
func (m *Machine) BootLog() []string {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	return m.bootLog
}
