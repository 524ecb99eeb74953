package bmc

import (
	"net/url"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// Slot is a slot for virtual media.
type Slot struct {
	ID      string
	Types   []string // as Redfish spells them: CD, DVD, Floppy, USBStick
	Sources []Source // sources under which a machine boots from it
}

// Medium is what is in a slot.
type Medium struct {
	Image          string `json:"image"` // URL; empty means that the slot is empty
	WriteProtected bool   `json:"write_protected"`
	User           string `json:"user,omitempty"`
	Protocol       string `json:"protocol,omitempty"` // transfer protocol, in the words of Redfish
}

// imageSchemes are the schemes of URLs that a BMC opens.
var imageSchemes = []string{"http", "https", "nfs", "cifs", "smb"}

// Media returns the content of all slots, in the order of the profile.
func (b *BMC) Media() []Medium {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	media := make([]Medium, len(b.config.Profile.Slots))
	copy(media, b.media)
	return media
}

// Insert puts a medium into a slot, counted from zero. The BMC does not open the image.
// The error is a *RefusedError.
func (b *BMC) Insert(c *Call, slot int, m Medium) error {
	return b.apply(c, change{
		kind: AttachMedium, detail: b.slotID(slot) + " " + m.Image,
		check: func(time.Time) *RefusedError {
			u, err := url.Parse(m.Image)
			switch {
			case err != nil || !slices.Contains(imageSchemes, u.Scheme) || u.Host == "":
				return &RefusedError{Reason: BadImage, Property: "Image", Value: m.Image}
			case b.inserted(slot).Image != "" && !b.config.Profile.ReplacesMedia:
				return &RefusedError{Reason: SlotOccupied, Property: "Image"}
			}
			return nil
		},
		do: func(_ time.Time, fate effect.Fate) *Task {
			if !fate.FailTask {
				b.put(slot, m)
			}
			return nil
		},
	})
}

// Eject empties a slot, counted from zero. The error is a *RefusedError.
func (b *BMC) Eject(c *Call, slot int) error {
	return b.apply(c, change{
		kind: DetachMedia, detail: b.slotID(slot),
		check: func(time.Time) *RefusedError {
			if b.inserted(slot).Image == "" && !b.config.Profile.EjectsNothing {
				return &RefusedError{Reason: SlotEmpty}
			}
			return nil
		},
		do: func(_ time.Time, fate effect.Fate) *Task {
			if !fate.FailTask {
				b.put(slot, Medium{})
			}
			return nil
		},
	})
}

func (b *BMC) slotID(slot int) string { return b.config.Profile.Slots[slot].ID }

func (b *BMC) inserted(slot int) Medium {
	if b.media == nil {
		return Medium{}
	}
	return b.media[slot]
}

func (b *BMC) put(slot int, m Medium) {
	if b.media == nil {
		b.media = make([]Medium, len(b.config.Profile.Slots))
	}
	b.media[slot] = m
}

// bootMedia returns what is inserted.
func (b *BMC) bootMedia() (media []BootMedium) {
	for i, slot := range b.config.Profile.Slots {
		if image := b.inserted(i).Image; image != "" {
			media = append(media, BootMedium{Image: image, Sources: slot.Sources})
		}
	}
	return media
}
