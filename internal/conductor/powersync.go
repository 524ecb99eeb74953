package conductor

import (
	"context"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/powersync"
	"github.com/ingot-metal/ingot/internal/store"
)

// powerOwner implements the interface that power sync needs of a conductor.
type powerOwner struct{ c *Conductor }

// newPowerSync returns the syncer for the power states of the conductor's nodes.
func (c *Conductor) newPowerSync() *powersync.Syncer {
	return powersync.New(c.store, c.drivers, c.gate, powerOwner{c}, powersync.Config{
		Interval: c.cfg.Limits.PowerSync, Recovery: c.cfg.Limits.PowerRecovery, Tries: c.cfg.Limits.PowerSyncTries,
		Accept: c.cfg.Limits.AcceptPower, Calls: c.cfg.Calls, CallsPerBMC: c.cfg.CallsPerBMC, CallTimeout: c.cfg.CallTimeout,
	}, c.log)
}

// Watch returns the function that tells which nodes this conductor watches, see watcher. The
// version changes when a conductor starts or ends.
func (o powerOwner) Watch(tx *store.Tx) (watches func(*node.Node) bool, version string, err error) {
	conductors, err := o.c.conductors(tx)
	if err != nil {
		return nil, "", err
	}
	var alive strings.Builder
	for _, other := range conductors {
		if other.Alive {
			fmt.Fprintf(&alive, "%q in %q\n", other.Hostname, other.Group)
		}
	}
	return func(n *node.Node) bool { return watcher(n, conductors) == o.c.cfg.Hostname }, alive.String(), nil
}

// Restore adds the work that changes the machine's power back to the state that its node records.
func (o powerOwner) Restore(tx *store.Tx, n *node.Node) (begin func(), err error) {
	started, err := o.c.startServed(tx, n, workPower, node.ObjectOf(map[string]any{powerTargetIntent: n.PowerState}))
	return func() { o.c.runner.Enqueue(started) }, err
}

// CheckBMCIsOwn returns an error when the node's BMC belongs to the machine of another node.
func (o powerOwner) CheckBMCIsOwn(ctx context.Context, n *node.Node) error {
	var whole *node.Node
	err := o.c.store.Read(ctx, func(tx *store.Tx) (err error) {
		whole, err = tx.NodeByID(n.ID)
		return err
	})
	if err != nil {
		return err
	}
	return o.c.checkBMCIsOwn(ctx, whole)
}

// Suspend suspends work because many machines differ from what is stored.
func (o powerOwner) Suspend(tx *store.Tx, detail string) (began bool, err error) {
	return o.c.suspend(tx, node.MachinesDiffer, detail)
}

// Record appends to the node's history.
func (o powerOwner) Record(tx *store.Tx, n *node.Node, severity node.Severity, message string) error {
	return o.c.recordHistory(tx, n, severity, "power", message)
}
