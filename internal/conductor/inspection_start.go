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
	"github.com/ingot-metal/ingot/internal/runner"
	"github.com/ingot-metal/ingot/internal/store"
)

// Inspection says how machines are inspected. The zero value is the default of an
// engine without configuration.
type Inspection struct {
	// UnmanagedBoot permits inspection of machines whose ramdisk is started by a
	// network boot environment that the engine does not manage.
	UnmanagedBoot bool
	// KeepPowerOn leaves machines on after their ramdisk has posted the inventory.
	KeepPowerOn bool
	// Resolver resolves the names of BMCs; nil means the system's resolver.
	Resolver inspect.Resolver
}

// inspectionOperations returns the operations that inspect the machine through its BMC, or start
// its ramdisk and wait for the inspection document. In the second case, the post of the document
// ends this work.
func (c *Conductor) inspectionOperations(t runner.Task) ([]runner.Operation, error) {
	if _, reads := c.inventoryReader(t.Node); reads {
		return c.outOfBandOperations(t), nil
	}
	boot, err := c.inspectionBoot(t.Node)
	if err != nil {
		return nil, err
	}
	start := boot != noRamdisk
	byHand := start && !c.switches(t.Node, node.PowerOn)
	off := c.switchTo(t.Node, node.PowerOff).SkipIf(!start || byHand)
	offFirst := off // not offForRamdisk, because no inspection keeps a ramdisk
	offFirst.Name = offForRamdiskName
	operations := []runner.Operation{
		{Ref: runner.Ref{Name: "resolve BMC addresses"}, Read: c.resolveBMC},
		c.noteIdentity(t.Node),
		c.portsOfBMC(t.Node).SkipIf(!start),
	}
	operations = append(operations, skipIf(boot != managedBoot, c.matchBootMode(t.Node)...)...)
	return append(operations, []runner.Operation{
		offFirst,
		{Ref: runner.Ref{Name: bootRamdiskName}, Change: c.bootRamdisk(boot), Skip: !start || boot == unmanagedBoot && !c.choosesNetwork(t.Node)},
		{Ref: runner.Ref{Name: startByHandName}, Store: c.askForStart, Skip: !byHand},
		off, c.switchOnAnew(t.Node).SkipIf(!start),
		changeBy(c, "inspect", node.InspectInterface, "inspection", driver.Inspector.Inspect),
	}...), nil
}

// endInspection ends an inspection without a document. An inspection with a document has been ended
// by the hooks.
func (c *Conductor) endInspection(tx *store.Tx, _ runner.Task, n *node.Node) error {
	if !inspected(n.ProvisionState) {
		return nil
	}
	n.InspectionFinishedAt = tx.Now()
	return c.Move(tx, n, node.OnDone)
}

// cleanUpInspection returns the operations that withdraw the ramdisk and stop the machine after its
// inspection has failed.
func (c *Conductor) cleanUpInspection(t runner.Task) []runner.Operation {
	off, reboot := c.stopInspected(t.Node)
	boot, err := c.inspectionBoot(t.Node)
	started := err == nil && boot != noRamdisk
	return []runner.Operation{
		c.checkBeforeLeaving(t.Node).SkipIf(!started), c.leaveRamdiskIfItCan(t.Node),
		off.SkipIf(!started), reboot.SkipIf(!started),
	}
}

// bmcAddressesKey is the key of driver_internal_info for the BMC addresses by which a
// machine's post is matched to its node, as clients of the Bare Metal API know it.
const bmcAddressesKey = "lookup_bmc_addresses"

// resolveBMC resolves the addresses of the node's BMCs. The node and the index of lookups keep the
// addresses until the inspection ends. The inspection goes on when a name cannot be resolved: most
// machines are matched by the addresses of their ports.
func (c *Conductor) resolveBMC(ctx context.Context, n *node.Node) (runner.Write, error) {
	addresses, problems := inspect.ResolveBMC(ctx, c.cfg.Inspection.Resolver, n.DriverInfo)
	for _, problem := range problems {
		c.log.Warn("BMC address could not be resolved for inspection", "node", n.UUID, "reason", problem)
	}
	return func(tx *store.Tx, n *node.Node) error {
		for _, problem := range problems {
			text := problem + ". This inspection cannot match the machine by that address."
			if err := c.recordHistory(tx, n, node.SeverityError, "inspection", text); err != nil {
				return err
			}
		}
		return setBMCAddresses(tx, n, addresses)
	}, nil
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

// dropBMCAddresses removes the addresses that setBMCAddresses stored.
func dropBMCAddresses(tx *store.Tx, n *node.Node) error {
	if _, kept := n.DriverInternalInfo.Fields()[bmcAddressesKey]; !kept {
		return nil
	}
	n.DriverInternalInfo = n.DriverInternalInfo.Without(bmcAddressesKey)
	return tx.ClaimInspected(n.ID, nil)
}

// inspected reports whether a node in this state is being inspected.
func inspected(state node.State) bool { return state == node.Inspecting || state == node.InspectWait }

// bootWay says what starts the ramdisk of a machine.
type bootWay int

const (
	noRamdisk     bootWay = iota // nothing: none is needed, or none can be started
	managedBoot                  // the node's boot interface
	unmanagedBoot                // a network boot environment that the engine does not manage
)

// inspectionBoot decides what starts the node's ramdisk. The error is a
// *node.ValidationError.
func (c *Conductor) inspectionBoot(n *node.Node) (bootWay, error) {
	inspector, err := c.drivers.Implementation(n, node.InspectInterface)
	if err != nil {
		return noRamdisk, err
	}
	if _, ok := inspector.(driver.InBand); !ok {
		return noRamdisk, nil
	}
	return c.bootWay(n)
}

// askForStart writes into the history that a person has to start the machine, because the engine
// cannot switch it on.
func (c *Conductor) askForStart(tx *store.Tx, n *node.Node) error {
	return c.recordHistory(tx, n, node.SeverityInfo, "inspection", fmt.Sprintf(
		"The power interface %q cannot switch this machine on: boot it into the ramdisk by hand now.", n.Interfaces[node.PowerInterface]))
}

// bootRamdisk makes the machine boot the ramdisk at its next start.
func (c *Conductor) bootRamdisk(boot bootWay) runner.Change {
	if boot == managedBoot {
		return changeBy(c, "", node.BootInterface, "booting a ramdisk", driver.RamdiskBoot.BootRamdisk).Change
	}
	return changeBy(c, "", node.ManagementInterface, "boot devices",
		func(management driver.Management, ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
			once := false
			return management.SetBootDevice(ctx, n, node.BootDevice{Device: networkDevice, Persistent: &once}, turn)
		}).Change
}

// choosesNetwork reports whether the node can be told to boot from the network. If
// not, the machine's own boot order decides.
func (c *Conductor) choosesNetwork(n *node.Node) bool { return c.chooses(n, networkDevice) }

// chooses reports whether the node can be told to boot from a device.
func (c *Conductor) chooses(n *node.Node, device string) bool {
	management, err := driver.Ability[driver.Management](c.drivers, n, node.ManagementInterface, "boot devices")
	return err == nil && slices.Contains(management.BootDevices(n), device)
}

// networkDevice is the boot device for booting from the network.
const networkDevice = "pxe"

// switchOnAnew is switchTo node.PowerOn with powerOnAnew.
func (c *Conductor) switchOnAnew(n *node.Node) runner.Operation {
	on := c.switchTo(n, node.PowerOn)
	on.Change = c.powerOnAnew
	return on
}

// powerOnAnew switches on a machine that was switched off before. It reboots a machine that must
// not be switched off, after a check which machine it is.
func (c *Conductor) powerOnAnew(ctx context.Context, n *node.Node, turn driver.Turn) (driver.Outcome, error) {
	change := c.powerChange(node.PowerOn, 0)
	if n.DisablePowerOff {
		change = afterCheck(c.refuseOtherMachine, c.powerChange(node.Rebooting, 0))
	}
	return change(ctx, n, turn)
}

// rebootName names the operation of rebootInspected.
const rebootName = "reboot after inspection"

// stopInspected returns the operations that switch the machine off after its inspection, or reboot
// it if it must not be switched off. Work has both operations, so that it can go on when the node
// is changed meanwhile.
func (c *Conductor) stopInspected(n *node.Node) (off, reboot runner.Operation) {
	stays := !c.leavesRamdisk(n)
	return c.switchTo(n, node.PowerOff).SkipIf(stays), c.rebootInspected(n).SkipIf(stays)
}

// rebootInspected returns the reboot that takes a machine out of its ramdisk when the machine must
// not be switched off.
func (c *Conductor) rebootInspected(n *node.Node) runner.Operation {
	return runner.Operation{
		Ref: runner.Ref{Name: rebootName}, Skip: !n.DisablePowerOff || !c.switches(n, node.Rebooting), Change: afterCheck(c.refuseOtherMachine, c.powerChange(node.Rebooting, 0)),
	}
}

// leavesRamdisk reports whether the machine leaves its ramdisk after its inspection. It stays in
// the ramdisk when Inspection.KeepPowerOn is set, when the ramdisk is kept between phases or could
// not be started again, and when the node was only discovered.
func (c *Conductor) leavesRamdisk(n *node.Node) bool {
	return n.ProvisionState == node.Inspecting && !c.cfg.Inspection.KeepPowerOn && !agent.FastTrack(n, c.drivers.Attributes(n), c.cfg.FastTrack)
}
