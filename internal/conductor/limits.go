package conductor

import (
	"cmp"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Limits bound how long operations may take and how many run at once. A zero field
// means the default that its comment gives.
type Limits struct {
	CallbackTimeout time.Duration // time without a heartbeat after which a waiting state fails: 30 minutes
	// BootRetry is the time without a sign of the ramdisk after which its machine is started again.
	// The default is never.
	BootRetry    time.Duration
	PowerTimeout time.Duration // a power change: 1 minute
	SoftPowerOff time.Duration // a soft power off, which the operating system may refuse: 10 minutes
	MaxDeploying int           // nodes being deployed or undeployed at once: 250
	MaxCleaning  int           // nodes being cleaned at once: 50
	// HistoryEntries is the number of history rows that a node keeps: the newest 300. Between two
	// trims there may be a tenth more.
	HistoryEntries int
	// KeepPowerOn leaves a machine on after a failed deployment, so that it can be examined.
	KeepPowerOn bool
	// StepTimeout bounds a step of the ramdisk's agent: 72 hours. The deploy driver enforces it;
	// the conductor only mentions it in the history.
	StepTimeout time.Duration

	PowerSync      time.Duration // how often power states are read: 2 minutes; below 0 never
	PowerSyncTries int           // failed reads in a row that put the node into maintenance: 3
	PowerRecovery  time.Duration // how often such nodes are tried again: 5 minutes
	AcceptPower    bool          // store the observed power state instead of restoring the requested one
}

func (l Limits) withDefaults() Limits {
	l.CallbackTimeout = cmp.Or(l.CallbackTimeout, 30*time.Minute)
	l.PowerTimeout = cmp.Or(l.PowerTimeout, time.Minute)
	l.SoftPowerOff = cmp.Or(l.SoftPowerOff, 10*time.Minute)
	l.MaxDeploying = cmp.Or(l.MaxDeploying, 250)
	l.MaxCleaning = cmp.Or(l.MaxCleaning, 50)
	l.StepTimeout = cmp.Or(l.StepTimeout, 72*time.Hour)
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
