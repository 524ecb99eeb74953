package bmc

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// The resets of secure boot keys, as Redfish spells them.
const (
	ResetAllKeysToDefault = "ResetAllKeysToDefault"
	DeleteAllKeys         = "DeleteAllKeys"
	DeletePK              = "DeletePK"
)

// KeysResets has all resets of secure boot keys.
var KeysResets = []string{ResetAllKeysToDefault, DeleteAllKeys, DeletePK}

type secureState struct {
	current bool // in the boot that runs
	wanted  bool // from the next boot on
	noKeys  bool // setup mode: nothing is verified
}

// SecureBootState is whether a machine verifies what it boots.
type SecureBootState struct {
	Current bool // in the present boot
	Wanted  bool // from the next boot on
	Keys    bool // it has a platform key; without one it is in setup mode
}

// SecureBoot returns the state of secure boot.
func (b *BMC) SecureBoot() SecureBootState {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actDue()
	return SecureBootState{Current: b.secure.current, Wanted: b.secure.wanted, Keys: !b.secure.noKeys}
}

// SetSecureBoot switches secure boot on or off from the next boot on. On BMCs with BIOS jobs, it
// returns the job that does so. The error is a *RefusedError.
func (b *BMC) SetSecureBoot(c *Call, enable bool) (job *Task, err error) {
	detail := "disable"
	if enable {
		detail = "enable"
	}
	err = b.apply(c, change{
		kind: SecureBoot, detail: detail,
		check: func(time.Time) *RefusedError {
			if b.config.Profile.BIOSJobs && b.bios.committed {
				return &RefusedError{Reason: PendingBIOSJob}
			}
			return nil
		},
		do: func(now time.Time, fate effect.Fate) *Task {
			if fate.FailTask && !b.config.Profile.BIOSJobs {
				return nil
			}
			b.secure.wanted = enable
			if b.config.Profile.BIOSJobs {
				job = b.scheduleBIOS(now, fate).copied()
			}
			return job
		},
	})
	return job, err
}

// ResetSecureBootKeys changes the keys at once, not at the next boot. The error is a *RefusedError.
func (b *BMC) ResetSecureBootKeys(c *Call, kind string) error {
	return b.apply(c, change{
		kind: ResetSecureBoot, detail: kind,
		check: func(time.Time) *RefusedError {
			if !slices.Contains(KeysResets, kind) {
				return &RefusedError{Reason: UnknownKeysReset, Property: "ResetKeysType", Value: kind}
			}
			return nil
		},
		do: func(_ time.Time, fate effect.Fate) *Task {
			if !fate.FailTask {
				b.secure.noKeys = kind != ResetAllKeysToDefault
			}
			return nil
		},
	})
}
