package node

import (
	"reflect"
	"slices"
	"time"
)

// BIOSSetting is one setting of a machine's firmware as it was last read.
type BIOSSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // numbers and booleans as text
	// Fields of the attribute registry; zero when the registry does not have them. AttributeType is
	// "Enumeration", "Integer", "String", "Boolean" or "Password".
	AttributeType   string   `json:"attribute_type,omitempty"`
	AllowableValues []string `json:"allowable_values,omitempty"`
	LowerBound      *int64   `json:"lower_bound,omitempty"`
	UpperBound      *int64   `json:"upper_bound,omitempty"`
	MinLength       *int64   `json:"min_length,omitempty"`
	MaxLength       *int64   `json:"max_length,omitempty"`
	ReadOnly        *bool    `json:"read_only,omitempty"`
	ResetRequired   *bool    `json:"reset_required,omitempty"`
	Unique          *bool    `json:"unique,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// FirmwareComponent is one component with firmware and its versions as last read.
type FirmwareComponent struct {
	Component          string    `json:"component"` // "bios", "bmc" or "nic:<id>"
	InitialVersion     string    `json:"initial_version"`
	CurrentVersion     string    `json:"current_version"`
	LastVersionFlashed string    `json:"last_version_flashed,omitempty"`
	CreatedAt          time.Time `json:"created_at"`
	UpdatedAt          time.Time `json:"updated_at,omitzero"`
}

// Hardware is a machine's settings as the engine last read them.
type Hardware struct {
	BIOS     []BIOSSetting
	Firmware []FirmwareComponent
}

// DatedFrom returns h with its times set from the reading before: new entries are
// created now, changed ones updated now, others keep their times.
func (h Hardware) DatedFrom(before Hardware, now time.Time) Hardware {
	now = now.Truncate(time.Microsecond).UTC()
	dated := Hardware{BIOS: slices.Clone(h.BIOS), Firmware: slices.Clone(h.Firmware)}
	settings := make(map[string]BIOSSetting, len(before.BIOS))
	for _, s := range before.BIOS {
		settings[s.Name] = s
	}
	for i := range dated.BIOS {
		after := &dated.BIOS[i]
		known, ok := settings[after.Name]
		if !ok {
			after.CreatedAt = now
			continue
		}
		after.CreatedAt, after.UpdatedAt = known.CreatedAt, known.UpdatedAt
		if !reflect.DeepEqual(*after, known) {
			after.UpdatedAt = now
		}
	}
	components := make(map[string]FirmwareComponent, len(before.Firmware))
	for _, c := range before.Firmware {
		components[c.Component] = c
	}
	for i := range dated.Firmware {
		after := &dated.Firmware[i]
		known, ok := components[after.Component]
		if !ok {
			after.CreatedAt = now
			continue
		}
		after.InitialVersion, after.CreatedAt, after.UpdatedAt = known.InitialVersion, known.CreatedAt, known.UpdatedAt
		if *after != known {
			after.UpdatedAt = now
		}
	}
	return dated
}

// Equal reports whether both are the same, including times.
func (h Hardware) Equal(other Hardware) bool {
	return slices.EqualFunc(h.BIOS, other.BIOS, func(a, b BIOSSetting) bool { return reflect.DeepEqual(a, b) }) &&
		slices.Equal(h.Firmware, other.Firmware)
}

// BootDevice is the boot device of a machine.
type BootDevice struct {
	Device     string `json:"boot_device"` // "pxe", "disk", "cdrom", …; empty when unknown
	Persistent *bool  `json:"persistent"`  // nil when unknown
	// URL is what the machine boots from the device "uefihttp"; empty means what its DHCP
	// server names. Only boot interfaces set it.
	URL string `json:"-"`
}

// Medium is one virtual medium, which the BMC presents to its machine as a device.
type Medium struct {
	DeviceType string `json:"device_type"` // "cdrom", "disk" or "floppy"
	ImageURL   string `json:"image_url"`
	Source     string `json:"image_download_source,omitempty"` // "http", "local" or "swift"
	// Beside is the URL of the image that must stay attached while this one is attached, so that
	// this one goes into another virtual device. Only boot interfaces set it.
	Beside string `json:"-"`
	// Stays says that this attached medium must not make room for another one, because it may
	// belong to another machine. Only drivers set it.
	Stays bool `json:"-"`
}

// HardwareAttributes are the properties that all machines of a hardware type share.
type HardwareAttributes struct {
	// HasBMC says that the engine reaches the machine through a BMC, so that it can
	// change the power without the agent.
	HasBMC bool
	// NeedsRamdiskForPower says that only the ramdisk of the machine can restart it:
	// without a running ramdisk the engine cannot change the power.
	NeedsRamdiskForPower bool
	// SkipBMCDetect says that the agent need not detect the BMC's address, which takes it long. The
	// engine does not need that address, because it reads what it needs through Redfish.
	SkipBMCDetect bool
}

// VendorMethod is a method that a vendor interface adds to the API.
type VendorMethod struct {
	HTTPMethods          []string // in upper case
	Async                bool     // answered with 202 before it is done
	Attach               bool     // true when the answer is a file
	Description          string
	RequireExclusiveLock bool
}

// Validation says whether one driver interface of a node could work.
type Validation struct {
	Result *bool  // nil: the node has no such ability
	Reason string // for people, when Result is false or nil
}

// VendorCall is one call of a vendor method.
type VendorCall struct {
	HTTPMethod string `json:"http_method"` // in upper case
	Method     string `json:"method"`
	Body       Object `json:"body"`
}
