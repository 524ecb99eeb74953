package node

import (
	"reflect"
	"slices"
	"time"
)

// BIOSSetting is one attribute of a machine's firmware set-up as it was last
// read.
type BIOSSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // numbers and booleans as text
	// What the attribute registry says; zero when it says nothing.
	AttributeType   string   `json:"attribute_type,omitempty"` // "Enumeration", "Integer", "String", "Boolean", "Password"
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

// FirmwareComponent is one piece of firmware of a machine as it was last read.
type FirmwareComponent struct {
	Component          string    `json:"component"` // "bios", "bmc" or "nic:<id>"
	InitialVersion     string    `json:"initial_version"`
	CurrentVersion     string    `json:"current_version"`
	LastVersionFlashed string    `json:"last_version_flashed,omitempty"`
	CreatedAt          time.Time `json:"created_at"`
	UpdatedAt          time.Time `json:"updated_at,omitzero"`
}

// Hardware is what the engine keeps of a machine's own settings.
type Hardware struct {
	BIOS     []BIOSSetting
	Firmware []FirmwareComponent
}

// DatedFrom returns h with the times of what was known before: what is new was
// created now, what differs was updated now.
func (h Hardware) DatedFrom(before Hardware, now time.Time) Hardware {
	now = now.Truncate(time.Microsecond).UTC()
	dated := Hardware{BIOS: slices.Clone(h.BIOS), Firmware: slices.Clone(h.Firmware)}
	for i := range dated.BIOS {
		after := &dated.BIOS[i]
		at := slices.IndexFunc(before.BIOS, func(s BIOSSetting) bool { return s.Name == after.Name })
		if at < 0 {
			after.CreatedAt = now
			continue
		}
		after.CreatedAt, after.UpdatedAt = before.BIOS[at].CreatedAt, before.BIOS[at].UpdatedAt
		if !reflect.DeepEqual(*after, before.BIOS[at]) {
			after.UpdatedAt = now
		}
	}
	for i := range dated.Firmware {
		after := &dated.Firmware[i]
		at := slices.IndexFunc(before.Firmware, func(c FirmwareComponent) bool { return c.Component == after.Component })
		if at < 0 {
			after.CreatedAt = now
			continue
		}
		known := before.Firmware[at]
		after.InitialVersion, after.CreatedAt, after.UpdatedAt = known.InitialVersion, known.CreatedAt, known.UpdatedAt
		if *after != known {
			after.UpdatedAt = now
		}
	}
	return dated
}

// Equal reports whether both hold the same, times included.
func (h Hardware) Equal(other Hardware) bool {
	return slices.EqualFunc(h.BIOS, other.BIOS, func(a, b BIOSSetting) bool { return reflect.DeepEqual(a, b) }) &&
		slices.Equal(h.Firmware, other.Firmware)
}

// BootDevice is what a machine starts from.
type BootDevice struct {
	Device     string `json:"boot_device"` // "pxe", "disk", "cdrom", …; empty when unknown
	Persistent *bool  `json:"persistent"`  // nil when unknown
}

// Medium is one device that a BMC shows to its machine.
type Medium struct {
	DeviceType string `json:"device_type"` // "cdrom", "disk" or "floppy"
	ImageURL   string `json:"image_url"`
	Source     string `json:"image_download_source,omitempty"` // "http", "local" or "swift"
}

// VendorMethod is a method that a vendor interface adds to the API.
type VendorMethod struct {
	HTTPMethods          []string // in upper case
	Async                bool     // answered 202 before it is done
	Attach               bool     // whether the answer is a file
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
