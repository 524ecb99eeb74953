package bmc

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// Target is a boot target, as Redfish spells it (ComputerSystem.BootSource).
type Target string

// The boot targets.
const (
	TargetNone       Target = "None"
	TargetPXE        Target = "Pxe"
	TargetHTTP       Target = "UefiHttp"
	TargetDisk       Target = "Hdd"
	TargetCD         Target = "Cd"
	TargetVirtualCD  Target = "UsbCd"
	TargetUSB        Target = "Usb"
	TargetFloppy     Target = "Floppy"
	TargetSDCard     Target = "SDCard"
	TargetBIOSSetup  Target = "BiosSetup"
	TargetUtilities  Target = "Utilities"
	TargetDiags      Target = "Diags"
	TargetUEFIShell  Target = "UefiShell"
	TargetUEFITarget Target = "UefiTarget"
)

// Source is what a machine boots from.
type Source string

// The sources.
const (
	FromNetwork   Source = "network"
	FromDisk      Source = "disk"
	FromCD        Source = "virtual CD"
	FromUSB       Source = "virtual USB stick"
	FromURL       Source = "URL"       // UEFI HTTP boot of the URL in the override
	FromElsewhere Source = "elsewhere" // setup, tools, drives that are not there
)

// Enabled is for how long an override is in force.
type Enabled string

// The states of an override.
const (
	Disabled   Enabled = "Disabled"
	Once       Enabled = "Once"
	Continuous Enabled = "Continuous"
)

// Mode is a boot mode.
type Mode string

// The boot modes.
const (
	UEFI   Mode = "UEFI"
	Legacy Mode = "Legacy"
)

// Override is what a machine boots from instead of the first in its boot order.
type Override struct {
	Target  Target  `json:"target"`
	Enabled Enabled `json:"enabled"`
	Mode    Mode    `json:"mode"`
	// URL is what TargetHTTP boots; empty means what DHCP names. It stays when the override
	// has ended.
	URL string `json:"url,omitempty"`
	// NoURL, in a change, removes the URL.
	NoURL bool `json:"-"`
}

// Boot orders: BootOrder is what machines without an override try, in turn; diskFirst is what they
// try if they have a boot entry for the disk.
var (
	BootOrder = []Source{FromNetwork, FromDisk, FromCD}
	diskFirst = []Source{FromDisk, FromNetwork, FromCD}
)

// Boot is one boot of a machine.
type Boot struct {
	Number     int64        // from 1
	Source     Source       // the override's, or the first of [BootOrder]
	Overridden bool         // an override has chosen the source
	URL        string       // of FromURL
	Media      []BootMedium // the inserted ones, in the order of their slots
	Mode       Mode
	SecureBoot bool // the machine verifies what it boots: secure boot is on, and there are keys
}

// BootMedium is a virtual medium as a machine finds it.
type BootMedium struct {
	Image   string   // URL
	Sources []Source // sources under which a machine boots from it
}

// Sources returns what the machine tries in turn: the source of an override, then the boot order,
// like BootNext and BootOrder of UEFI. bootEntry says that there is a boot entry for the disk,
// which is then first in the boot order. Behind setup and tools nothing follows: they wait for a
// person.
func (b Boot) Sources(bootEntry bool) []Source {
	order := BootOrder
	if bootEntry {
		order = diskFirst
	}
	switch {
	case !b.Overridden:
		return order
	case b.Source == FromElsewhere:
		return []Source{b.Source}
	}
	others := slices.DeleteFunc(slices.Clone(order), func(s Source) bool { return s == b.Source })
	return append([]Source{b.Source}, others...)
}

// Image returns the URL of the first medium of a source, or "" if there is none.
func (b Boot) Image(source Source) string {
	for _, m := range b.Media {
		if slices.Contains(m.Sources, source) {
			return m.Image
		}
	}
	return ""
}

// Override returns the boot settings as they are now.
func (b *BMC) Override() Override {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.overrideNow()
}

func (b *BMC) overrideNow() Override {
	o := b.override
	o.Mode = b.bootMode()
	return o
}

// bootMode returns the mode that was set, or else that of the hardware.
func (b *BMC) bootMode() Mode {
	if b.mode == "" && b.hardware().Inspection.Inventory.Boot.CurrentBootMode == "bios" {
		return Legacy
	}
	if b.mode == "" {
		return UEFI
	}
	return b.mode
}

// SetOverride changes the boot settings; empty fields stay as they are. The error is a
// *RefusedError.
func (b *BMC) SetOverride(c *Call, o Override) error { return b.setOverride(c, o, false) }

// SetBootFlags is SetOverride for the boot flags of IPMI. The firmware of the machine applies them
// only if it is told to handle them, see HandleBootFlags.
func (b *BMC) SetBootFlags(c *Call, o Override) error { return b.setOverride(c, o, true) }

// HandleBootFlags sets whether the firmware is to handle the boot flags of IPMI at the next boot
// (IPMI 2.0, section 28.13, bit 0 of parameter 4). Once the firmware has handled them, it resets
// this itself.
func (b *BMC) HandleBootFlags(handle bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	b.toHandle = handle
}

// HandlesBootFlags reports whether the firmware is still to handle the boot flags of IPMI.
func (b *BMC) HandlesBootFlags() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.toHandle
}

func (b *BMC) setOverride(c *Call, o Override, flags bool) error {
	return b.apply(c, change{
		kind: BootDevice, detail: strings.Join(strings.Fields(string(o.Target)+" "+string(o.Enabled)+" "+string(o.Mode)+" "+o.URL), " "),
		check: func(time.Time) *RefusedError { return b.checkOverride(o) },
		do: func(_ time.Time, fate effect.Fate) *Task {
			if fate.FailTask {
				return nil
			}
			b.override, b.unhandled = b.override.merge(o), flags
			if o.Mode != "" {
				b.mode = o.Mode
			}
			return nil
		},
	})
}

func (b *BMC) checkOverride(o Override) *RefusedError {
	profile := b.config.Profile
	if _, ok := profile.Targets[o.Target]; !ok && o.Target != "" && o.Target != TargetNone {
		return &RefusedError{Reason: UnknownTarget, Property: "BootSourceOverrideTarget", Value: string(o.Target)}
	}
	if u, err := url.Parse(o.URL); o.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return &RefusedError{Reason: BadImage, Property: "HttpBootUri", Value: o.URL}
	}
	if !slices.Contains([]Enabled{"", Disabled, Once, Continuous}, o.Enabled) {
		return &RefusedError{Reason: UnknownEnabled, Property: "BootSourceOverrideEnabled", Value: string(o.Enabled)}
	}
	if !slices.Contains([]Mode{"", UEFI, Legacy}, o.Mode) {
		return &RefusedError{Reason: UnknownMode, Property: "BootSourceOverrideMode", Value: string(o.Mode)}
	}
	if profile.POSTLocksBoot && b.inPOST() {
		return &RefusedError{Reason: DuringPOST, Property: "BootSourceOverrideTarget"}
	}
	if profile.FixedMode && o.Mode != "" && o.Mode != b.bootMode() {
		return &RefusedError{Reason: FixedMode, Property: "BootSourceOverrideMode"}
	}
	if wanted := b.override.merge(o); wanted.Enabled == Continuous && slices.Contains(profile.OnceOnly, wanted.Target) {
		return &RefusedError{Reason: NotContinuous, Property: "BootSourceOverrideEnabled", Value: string(Continuous)}
	}
	return nil
}

// merge applies changes to an override and returns the result. A target without a duration is for
// one boot.
func (o Override) merge(changes Override) Override {
	if changes.Target != "" {
		o.Target = changes.Target
		if o.Enabled == Disabled {
			o.Enabled = Once
		}
	}
	if changes.Enabled != "" {
		o.Enabled = changes.Enabled
	}
	if changes.URL != "" || changes.NoURL {
		o.URL = changes.URL
	}
	if o.Target == TargetNone || o.Enabled == Disabled {
		o.Target, o.Enabled = TargetNone, Disabled
	}
	return o
}

// bootFrom returns what a machine boots from, and the override that is left after that.
func bootFrom(o Override, targets map[Target]Source) (Source, Override) {
	if o.Enabled == Disabled || o.Target == TargetNone {
		return BootOrder[0], o
	}
	source := targets[o.Target]
	if o.Enabled == Once {
		o.Target, o.Enabled = TargetNone, Disabled
	}
	return source, o
}

// handled returns the override that the firmware applies at a boot. That is none if there are new
// boot flags of IPMI, and nobody has asked the firmware to handle them. Persistent flags stay in
// force once they were handled.
func (b *BMC) handled() Override {
	if b.unhandled && !b.toHandle {
		return Override{Target: TargetNone, Enabled: Disabled}
	}
	b.unhandled, b.toHandle = false, false
	return b.override
}

// nextBoot applies what waits for a boot, and returns that boot.
func (b *BMC) nextBoot() Boot {
	b.applyBIOS()
	b.applyVolumes()
	b.secure.current = b.secure.wanted
	b.boots++
	override := b.handled()
	boot := Boot{
		Number: b.boots, Mode: b.bootMode(), SecureBoot: b.secure.current && !b.secure.noKeys, Media: b.bootMedia(),
		Overridden: override.Enabled != Disabled && override.Target != TargetNone,
	}
	if override.Target == TargetHTTP && boot.Overridden {
		boot.URL = override.URL
	}
	boot.Source, override = bootFrom(override, b.config.Profile.Targets)
	if !b.unhandled {
		b.override = override
	}
	if boot.URL != "" {
		boot.Source = FromURL
	}
	return boot
}

// Rebooted tells the BMC that the operating system of boot number has restarted the machine by
// itself. It returns the boot that follows. It returns false when the power was switched meanwhile,
// which ended that boot.
func (b *BMC) Rebooted(number int64) (Boot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.actDue()
	if !b.on || b.boots != number || b.inPOST() {
		return Boot{}, false
	}
	b.flashWaiting(now)
	return b.nextBoot(), true
}

// Boots returns how often the machine has booted.
func (b *BMC) Boots() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return b.boots
}
