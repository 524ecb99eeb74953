package redfish

import (
	"context"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// Endpoint returns scheme, host and port of the node's BMC, such as https://192.0.2.7. The error is
// a *node.ValidationError.
func (Driver) Endpoint(n *node.Node) (string, error) { return endpointOf(n) }

// ServiceFacts are what a BMC tells everybody (DSP0268, ServiceRoot).
type ServiceFacts struct {
	Vendor, Product, RedfishVersion string
}

// ServiceFacts reads the service root, without credentials.
func (d Driver) ServiceFacts(ctx context.Context, n *node.Node) (ServiceFacts, error) {
	var facts ServiceFacts
	err := d.with(ctx, n, "read the service root", driver.Turn{}, func(c *call) error {
		root := c.api.Service
		facts = ServiceFacts{Vendor: root.Vendor, Product: root.Product, RedfishVersion: root.RedfishVersion}
		return nil
	})
	return facts, err
}

// LoginFacts are what a BMC grants.
type LoginFacts struct {
	// Session reports whether requests use a session. Without one they carry the credentials, if
	// there are any.
	Session bool
	Systems []string // paths
}

// LoginFacts logs in and lists the systems.
func (d Driver) LoginFacts(ctx context.Context, n *node.Node) (LoginFacts, error) {
	var facts LoginFacts
	err := d.with(ctx, n, "log in and list the systems", driver.Turn{}, func(c *call) (err error) {
		facts.Systems, err = c.systemPaths()
		facts.Session = c.bmc.kept().token != ""
		return err
	})
	return facts, err
}

// SystemFacts are what the driver finds at a system (DSP0268, ComputerSystem).
type SystemFacts struct {
	Path, Manufacturer, Model string
	// QuirkVendor is the row of the quirk table for this BMC, and Quirks say what the driver does
	// differently. Both are empty when there is no such row.
	QuirkVendor string
	Quirks      []string
	// Resets are the reset types that the system lists; empty when it lists none.
	Resets []string
	// Targets are the power targets that the reset types allow, Lacking the other ones.
	Targets, Lacking []node.PowerState
	// Override reports whether the system shows a boot override.
	Override bool
	// BootSources are the boot sources that the system lists. BootDevices are the boot devices of
	// the Bare Metal API that they allow; all of them when the system lists none.
	BootSources, BootDevices []string
}

// SystemFacts reads the node's system.
func (d Driver) SystemFacts(ctx context.Context, n *node.Node) (SystemFacts, error) {
	var facts SystemFacts
	err := d.with(ctx, n, "read the system", driver.Turn{}, func(c *call) error {
		system, err := c.system()
		if err != nil {
			return err
		}
		vendor, quirks := quirksOf(c.api.Service.Vendor, system.Manufacturer)
		facts = SystemFacts{
			Path: system.ODataID, Manufacturer: system.Manufacturer, Model: system.Model,
			QuirkVendor: vendor, Quirks: quirks.describe(),
			Override:    system.Boot.BootSourceOverrideTarget != "" || system.Boot.BootSourceOverrideEnabled != "",
			BootSources: texts(system.Boot.AllowableBootSourceOverrideTargetValues),
			BootDevices: devicesOn(system, quirks),
		}
		resets, err := system.GetSupportedResetTypes()
		if err != nil {
			return err
		}
		facts.Resets = texts(resets)
		facts.Targets, facts.Lacking = targetsOn(system, n.DisablePowerOff)
		return nil
	})
	return facts, err
}

// targetsOn divides the power targets by whether the reset types of a system allow them.
func targetsOn(system *schemas.ComputerSystem, keepsOn bool) (allowed, lacking []node.PowerState) {
	for _, target := range targets {
		plan := planOf(target, keepsOn, schemas.OnPowerState, "")
		if slices.ContainsFunc(plan, func(l leg) bool { _, err := chooseReset(system, l.resets); return err != nil }) {
			lacking = append(lacking, target)
			continue
		}
		allowed = append(allowed, target)
	}
	return allowed, lacking
}

// devicesOn lists the boot devices that the boot sources of a system allow.
func devicesOn(system *schemas.ComputerSystem, q quirks) []string {
	var devices []string
	for _, row := range bootSources {
		if checkSource(system, q.sourceOn(system, row.source)) == nil {
			devices = append(devices, row.device)
		}
	}
	return devices
}

// texts converts values to plain strings.
func texts[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	return all
}

// SlotFacts are what the driver finds at a virtual device (DSP0268, VirtualMedia).
type SlotFacts struct {
	Path     string
	Owner    string   // system or manager
	Devices  []string // of the Bare Metal API that it can be
	Inserts  bool     // it has an action to insert a medium
	Occupied bool
}

// SlotFacts reads the virtual devices, in the order of their paths.
func (d Driver) SlotFacts(ctx context.Context, n *node.Node) ([]SlotFacts, error) {
	var facts []SlotFacts
	err := d.with(ctx, n, "read virtual media", driver.Turn{}, func(c *call) error {
		found, err := c.drives()
		for _, slot := range found.slots {
			facts = append(facts, SlotFacts{
				Path: slot.ODataID, Owner: found.owner, Devices: devicesOf(slot), Inserts: slot.SupportsMediaInsert, Occupied: inserted(slot),
			})
		}
		slices.SortFunc(facts, func(a, b SlotFacts) int { return strings.Compare(a.Path, b.Path) })
		return err
	})
	return facts, err
}
