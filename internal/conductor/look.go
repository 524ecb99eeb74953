package conductor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Inspection says how machines are inspected. The zero value is what an engine does
// that nobody configured.
type Inspection struct {
	// UnmanagedBoot permits inspection of machines whose ramdisk somebody else's
	// network boot environment starts.
	UnmanagedBoot bool
	// KeepPowerOn leaves machines on whose ramdisk has posted its inventory.
	KeepPowerOn bool
	// Resolver finds the addresses of BMCs that are given by name; nil is the
	// system's.
	Resolver inspect.Resolver
}

// runLook inspects the machine from outside, or lets its ramdisk start and waits
// until that has posted what it found; the post then ends this work.
//
// It has always the same number of operations: a node may be changed while it
// waits.
func runLook(ctx context.Context, s *session) error {
	err := s.keepBMCAddresses(ctx)
	if err == nil {
		err = s.startRamdisk(ctx)
	}
	if err == nil {
		err = s.perform(ctx, nil, func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			inspector, err := driver.Ability[driver.Inspector](s.drivers, n, node.InspectInterface, "inspection")
			if err != nil {
				return driver.Outcome{}, err
			}
			return inspector.Inspect(ctx, n, turn)
		})
	}
	if err != nil {
		return err
	}
	return s.finish(ctx, func(tx *store.Tx, n *node.Node) error {
		n.InspectionFinishedAt = tx.Now()
		return s.move(tx, n, node.OnDone)
	})
}

// abandonLook switches a machine off whose ramdisk did not come.
func abandonLook(ctx context.Context, s *session) error {
	if boot, err := s.ramdiskBoot(s.n); err != nil || boot == noRamdisk || !s.leavesOff(s.n) {
		return nil //nolint:nilerr // no ramdisk was started
	}
	return switchOff(ctx, s)
}

// bmcAddressesKey is where driver_internal_info has the addresses by which a
// machine's post is matched to its node, as clients of the Bare Metal API know it.
const bmcAddressesKey = "lookup_bmc_addresses"

// keepBMCAddresses finds out where the node's BMCs are and keeps that in the node
// and in the index of lookups until inspection ends. A name that has no address now
// stops nothing: most machines are found by the addresses of their ports.
func (s *session) keepBMCAddresses(ctx context.Context) error {
	if s.next < s.At {
		s.next++
		return nil
	}
	addresses, problems := inspect.ResolveBMC(ctx, s.cfg.Inspection.Resolver, s.n.DriverInfo)
	if len(addresses) == 0 && len(problems) == 0 {
		s.next++
		return nil
	}
	for _, problem := range problems {
		s.log.Warn("BMC address could not be resolved for inspection", "node", s.n.UUID, "reason", problem)
	}
	return s.once(ctx, func(tx *store.Tx, n *node.Node) error {
		for _, problem := range problems {
			text := problem + ". This inspection cannot tell the machine by it."
			if err := s.record(tx, n, node.SeverityError, "inspection", text); err != nil {
				return err
			}
		}
		return setBMCAddresses(tx, n, addresses)
	})
}

func setBMCAddresses(tx *store.Tx, n *node.Node, addresses []netip.Addr) error {
	if len(addresses) == 0 {
		return nil
	}
	texts, claims := make([]string, len(addresses)), make([]store.Claim, len(addresses))
	for i, address := range addresses {
		texts[i] = address.String()
		claims[i] = store.Claim{Kind: store.InspectedBMC, Address: texts[i]}
	}
	n.DriverInternalInfo = n.DriverInternalInfo.With(map[string]any{bmcAddressesKey: texts})
	return tx.ClaimInspected(n.ID, claims)
}

// dropBMCAddresses ends what setBMCAddresses did.
func dropBMCAddresses(tx *store.Tx, n *node.Node) error {
	if _, kept := n.DriverInternalInfo.Fields()[bmcAddressesKey]; !kept {
		return nil
	}
	n.DriverInternalInfo = n.DriverInternalInfo.Without(bmcAddressesKey)
	return tx.ClaimInspected(n.ID, nil)
}

// inspected reports whether a node in this state is being inspected.
func inspected(state node.State) bool { return state == node.Inspecting || state == node.InspectWait }

// ramdiskBoot is who starts the ramdisk of a machine that is to be inspected.
type ramdiskBoot int

const (
	noRamdisk     ramdiskBoot = iota // inspection needs none
	managedBoot                      // the node's boot interface
	unmanagedBoot                    // a network boot environment that is not the engine's
)

// ramdiskBoot decides who starts the node's ramdisk. Its error is a
// *node.ValidationError for the operator.
func (c *Conductor) ramdiskBoot(n *node.Node) (ramdiskBoot, error) {
	inspector, err := c.drivers.Implementation(n, node.InspectInterface)
	if err != nil {
		return noRamdisk, err
	}
	if _, ok := inspector.(driver.InBand); !ok {
		return noRamdisk, nil
	}
	_, err = driver.Ability[driver.RamdiskBoot](c.drivers, n, node.BootInterface, "booting a ramdisk")
	switch {
	case err == nil:
		return managedBoot, nil
	case c.cfg.Inspection.UnmanagedBoot:
		return unmanagedBoot, nil
	}
	return noRamdisk, node.Invalid("Node %s cannot be inspected: its boot interface %q cannot start the ramdisk in this engine. "+
		"If another server starts it on the machine's network, set inspector.require_managed_boot to false, see docs/inspection.md.",
		n.UUID, n.Interfaces[node.BootInterface])
}

// startOperations is the number of operations of startRamdisk.
const startOperations = 3

// startRamdisk makes the machine start anew into the ramdisk, where its power
// interface can do that. Else a person has to.
func (s *session) startRamdisk(ctx context.Context) error {
	if s.At >= s.next+startOperations {
		s.next += startOperations
		return nil
	}
	boot, err := s.ramdiskBoot(s.n)
	if err != nil {
		return err
	}
	if boot == noRamdisk {
		s.next += startOperations
		return nil
	}
	power, err := s.drivers.Power(s.n)
	if err != nil {
		return err
	}
	if err := s.perform(ctx, nil, s.bootRamdisk(boot)); err != nil {
		return err
	}
	if !slices.Contains(power.Supported(), node.PowerOn) {
		err := s.once(ctx, func(tx *store.Tx, n *node.Node) error {
			return s.record(tx, n, node.SeverityInfo, "inspection", fmt.Sprintf(
				"The power interface %q cannot switch this machine on: start it into the ramdisk by hand, now.", n.Interfaces[node.PowerInterface]))
		})
		s.next++
		return err
	}
	if err := switchOff(ctx, s); err != nil {
		return err
	}
	return s.perform(ctx, nil, s.powerOnAnew)
}

// bootRamdisk makes the machine's next start lead into the ramdisk.
func (s *session) bootRamdisk(boot ramdiskBoot) operation {
	if boot == managedBoot {
		return func(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			ramdisk, err := driver.Ability[driver.RamdiskBoot](s.drivers, n, node.BootInterface, "booting a ramdisk")
			if err != nil {
				return driver.Outcome{}, err
			}
			return ramdisk.BootRamdisk(ctx, n, turn)
		}
	}
	return func(ctx context.Context, n *node.Node, _ driver.Turn) (driver.Outcome, error) {
		management, err := driver.Ability[driver.Management](s.drivers, n, node.ManagementInterface, "boot devices")
		if err != nil || !slices.Contains(management.BootDevices(n), networkDevice) {
			return driver.Outcome{}, nil //nolint:nilerr // the machine's own order decides
		}
		once := false
		return management.SetBootDevice(ctx, n, node.BootDevice{Device: networkDevice, Persistent: &once})
	}
}

// networkDevice is the boot device of machines that start from the network.
const networkDevice = "pxe"

// powerOnAnew starts a machine that was switched off before, or reboots one that
// must not be switched off.
func (s *session) powerOnAnew(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	target := node.PowerOn
	if n.DisablePowerOff {
		target = node.Rebooting
	}
	return s.powerOperation(target, 0)(ctx, n, turn)
}

// leavesOff reports whether the node's machine is off after its inspection. A
// ramdisk that is kept between phases, or that nobody could start again, goes on.
func (c *Conductor) leavesOff(n *node.Node) bool {
	return n.ProvisionState == node.Inspecting && !c.cfg.Inspection.KeepPowerOn && !agent.FastTrack(n, c.cfg.FastTrack)
}

// once commits change as an operation of the script.
func (s *session) once(ctx context.Context, change func(*store.Tx, *node.Node) error) error {
	number := s.next
	s.next++
	if number < s.At {
		return nil
	}
	s.progress = progress{At: number + 1, Doomed: s.Doomed}
	return s.commit(ctx, change)
}

// endInspection switches a machine off whose ramdisk has done its part, and runs
// the hooks over what it posted. A machine that stays on is no reason to lose that.
// Work that waited for the object store has been through that.
func (c *Conductor) endInspection(ctx context.Context, j job) error {
	n := j.node
	if n == nil {
		var err error
		if n, err = c.nodeByID(ctx, j.NodeID); err != nil {
			return err
		}
	}
	if !c.leavesOff(n) || waitedForObjects(j) {
		return c.runInspect(ctx, j)
	}
	s := &session{Conductor: c, j: j, n: n}
	if err := s.decode(j.Step); err != nil {
		return fmt.Errorf("read checkpoint of work %d: %w", j.ID, err)
	}
	switch err := s.performAgainSafely(ctx, s.switchOperation(node.PowerOff)); {
	case err == nil:
		s.j.found = append(s.pending, func(n *node.Node) { forgetAgent(n) })
	case !final(err):
		return err
	default:
		text := node.CutText(fmt.Sprintf("The machine could not be switched off after its inspection: %v", err))
		c.log.Warn("Machine stays on after its inspection", "node", n.UUID, "err", err)
		s.progress = progress{At: 1}
		if err := s.commit(ctx, func(tx *store.Tx, n *node.Node) error { return c.record(tx, n, node.SeverityError, "power", text) }); err != nil {
			return err
		}
	}
	return c.runInspect(ctx, s.j)
}

// performAgainSafely makes the only operation of a script, one that does no harm
// when it is repeated: most machines need one turn, which is not recorded first.
func (s *session) performAgainSafely(ctx context.Context, do operation) error {
	switch {
	case s.At > 0:
		return nil
	case s.Begun:
		return s.perform(ctx, nil, do)
	}
	if err := s.checkLease(ctx); err != nil {
		return err
	}
	s.progress = progress{Begun: true, Since: s.store.Now()}
	return s.turn(ctx, true, do)
}
