package conductor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Limits bound how long things may take and how many go on at once. A zero field
// means the default that stands beside it.
type Limits struct {
	CallbackTimeout time.Duration // silence in a waiting state before it fails: 30 minutes
	PowerTimeout    time.Duration // a power change: 1 minute
	SoftPowerOff    time.Duration // switching off in order, which the system may refuse: 10 minutes
	MaxDeploying    int           // nodes being deployed or undeployed at once: 250
	MaxCleaning     int           // nodes being cleaned at once: 50
	// HistoryEntries is how many rows of history a node keeps, the newest: 300. It
	// may have a tenth more between two trims.
	HistoryEntries int
	// KeepPowerOn leaves a machine on whose deployment failed, for a look at it.
	KeepPowerOn bool

	PowerSync      time.Duration // how often power states are read: 2 minutes; below 0 never
	PowerSyncTries int           // reads that may fail before the node goes into maintenance: 3
	PowerRecovery  time.Duration // how often such nodes are tried again: 5 minutes
	AcceptPower    bool          // store what is observed, instead of restoring what was asked for
}

func (l Limits) withDefaults() Limits {
	l.CallbackTimeout = cmp.Or(l.CallbackTimeout, 30*time.Minute)
	l.PowerTimeout = cmp.Or(l.PowerTimeout, time.Minute)
	l.SoftPowerOff = cmp.Or(l.SoftPowerOff, 10*time.Minute)
	l.MaxDeploying = cmp.Or(l.MaxDeploying, 250)
	l.MaxCleaning = cmp.Or(l.MaxCleaning, 50)
	l.HistoryEntries = cmp.Or(l.HistoryEntries, 300)
	l.PowerSync = cmp.Or(l.PowerSync, 2*time.Minute)
	l.PowerSyncTries = cmp.Or(l.PowerSyncTries, 3)
	l.PowerRecovery = cmp.Or(l.PowerRecovery, 5*time.Minute)
	return l
}

// powerTimeout is how long a change to target may take when the request does not
// say.
func (l Limits) powerTimeout(target node.PowerState) time.Duration {
	if target == node.SoftPowerOff || target == node.SoftRebooting {
		return l.SoftPowerOff
	}
	return l.PowerTimeout
}

// timeoutError ends a wait that nobody ended.
type timeoutError struct {
	state  node.State
	since  time.Time
	silent time.Duration
}

func (e *timeoutError) Error() string {
	what, advice := "nothing was heard from the machine's ramdisk", ""
	if e.state == node.InspectWait {
		what = "the machine's ramdisk has posted no inventory"
		advice = ". See that the machine starts the ramdisk and that the ramdisk reaches the engine, whose log says why it refused a post."
	}
	return fmt.Sprintf("timed out in state %q: %s for %s (since %s)%s",
		e.state, what, e.silent.Round(time.Second), e.since.UTC().Format(time.RFC3339), advice)
}
