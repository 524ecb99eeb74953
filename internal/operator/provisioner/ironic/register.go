package ironic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/bmc"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// disablePowerOffSince is the microversion 1.N that has disable_power_off.
const disablePowerOffSince = 95

// engineAbilities are what the engine's API version and settings allow.
type engineAbilities struct {
	firmware, disablePowerOff bool
	// inspection is the inspect interface that boots the ramdisk; "" if there is none.
	inspection string
}

// Create creates the node of a host; see [provisioner.Registrar].
func (e *Engine) Create(ctx context.Context, r provisioner.Registration) (provisioner.Node, error) {
	if r.Access == nil {
		return provisioner.Node{}, fmt.Errorf("%w: create node %s: its host has no BMC", provisioner.ErrInvalid, r.Name)
	}
	r, can, err := e.prepare(ctx, r)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("create node %s: %w", r.Name, err)
	}
	fields, err := newNode(r, can, e.opts.Ramdisk)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("create node %s: %w", r.Name, err)
	}
	n, err := e.client.CreateNode(ctx, fields)
	if err != nil {
		return provisioner.Node{}, translate(err)
	}
	if r.Deployed != nil {
		return e.Update(ctx, n.UUID, r, provisioner.UpdateOptions{})
	}
	return snapshotOf(n), e.ensurePorts(ctx, n.UUID, r)
}

// prepare reads what the engine can do, and chooses a driver that the engine has.
func (e *Engine) prepare(ctx context.Context, r provisioner.Registration) (provisioner.Registration, engineAbilities, error) {
	var can engineAbilities
	for since, ability := range map[int]*bool{firmwareSince: &can.firmware, disablePowerOffSince: &can.disablePowerOff} {
		var err error
		if *ability, err = e.client.Supports(ctx, since); err != nil {
			return r, can, translate(err)
		}
	}
	if r.DisablePowerOff && !can.disablePowerOff {
		return r, can, fmt.Errorf("%w: spec.disablePowerOff needs an engine with API version 1.%d or newer", provisioner.ErrUnsupported, disablePowerOffSince)
	}
	if r.Access == nil {
		return r, can, nil
	}
	access, err := e.availableAccess(ctx, *r.Access)
	if err != nil {
		return r, can, err
	}
	r.Access = &access
	can.inspection, err = e.ramdiskInspection(ctx, access.Driver)
	return r, can, err
}

// availableAccess returns the access with a driver that the engine has.
func (e *Engine) availableAccess(ctx context.Context, access bmc.Access) (bmc.Access, error) {
	generic := access.Generic()
	if generic.Driver == access.Driver {
		return access, nil
	}
	names, err := e.client.DriverNames(ctx)
	if err != nil {
		return access, translate(err)
	}
	if !slices.Contains(names, access.Driver) {
		return generic, nil
	}
	return access, nil
}

// agentInspectionSince is the first microversion 1.N after those of Ironic 2023.2, which introduced
// inspection without a separate service. Older engines may not have it.
const agentInspectionSince = 88

// ramdiskInspections are the inspect interfaces that boot the ramdisk, the better one first. The
// second one needs the service ironic-inspector.
var ramdiskInspections = []string{"agent", "inspector"}

// ramdiskInspection chooses the inspect interface that boots the ramdisk. It returns "" if the
// engine has none for the driver.
func (e *Engine) ramdiskInspection(ctx context.Context, driver string) (string, error) {
	recent, err := e.client.Supports(ctx, agentInspectionSince)
	if err != nil || recent {
		return ramdiskInspections[0], translate(err)
	}
	enabled, err := e.client.InspectInterfaces(ctx, driver)
	if errors.Is(err, ironic.ErrNotFound) {
		return "", fmt.Errorf("%w: the engine does not have the driver %s; enable it there", provisioner.ErrUnsupported, driver)
	}
	if err != nil {
		return "", translate(err)
	}
	for _, name := range ramdiskInspections {
		if slices.Contains(enabled, name) {
			return name, nil
		}
	}
	return "", nil
}

// newNode returns the fields of a new node.
func newNode(r provisioner.Registration, can engineAbilities, ramdisk Ramdisk) (ironic.Document, error) {
	interfaces, err := interfacesOf(*r.Access, r.InspectionMode, can)
	if err != nil {
		return nil, err
	}
	network, err := networkData(r.NetworkData)
	if err != nil {
		return nil, err
	}
	properties := map[string]any{"capabilities": mergeCapabilities("", r.BootMode)}
	if r.Architecture != "" {
		properties["cpu_arch"] = r.Architecture
	}
	if hints := rootDevice(r.RootDevice); hints != nil {
		properties["root_device"] = hints
	}
	info := ramdiskInfo(*r.Access, r.RamdiskImage, ramdisk)
	maps.Copy(info, r.Access.Settings)
	maps.Copy(info, credentialInfo(r))
	extra := map[string]any{v1alpha1.NodeMarkKey: string(r.Mark)}
	if r.CredentialsVersion != "" {
		extra[v1alpha1.NodeCredentialsKey] = r.CredentialsVersion
	}
	fields := ironic.Document{
		"driver": r.Access.Driver, "name": r.Name, "driver_info": info, "properties": properties,
		"extra": extra, "automated_clean": !r.SkipAutomatedCleaning,
	}
	for field, name := range interfaces {
		fields[field] = name
	}
	if can.disablePowerOff {
		fields["disable_power_off"] = r.DisablePowerOff
	}
	if len(network) > 0 {
		fields["network_data"] = network
	}
	return fields, nil
}

// ensurePorts creates the ports of a registration that the node lacks. It is an error if the boot
// MAC address belongs to another node. Other addresses that belong to another node are left out, as
// in an inspection.
func (e *Engine) ensurePorts(ctx context.Context, id string, r provisioner.Registration) error {
	wanted, boot := r.NICs, strings.ToLower(r.BootMAC)
	if boot != "" {
		wanted = slices.Concat([]provisioner.NIC{{MAC: boot, PXE: true}}, r.NICs)
	}
	if len(wanted) == 0 {
		return nil
	}
	macs, err := e.MACs(ctx, id)
	if err != nil {
		return err
	}
	for _, nic := range wanted {
		if slices.Contains(macs, nic.MAC) {
			continue
		}
		macs = append(macs, nic.MAC)
		err := translate(e.client.CreatePort(ctx, id, nic.MAC, nic.PXE))
		switch taken := errors.Is(err, provisioner.ErrConflict); {
		case taken && nic.MAC == boot:
			return fmt.Errorf("another node has the boot MAC address of node %s: %w", id, err)
		case err != nil && !taken:
			return err
		}
	}
	return nil
}

// Update writes what differs; see [provisioner.Registrar].
func (e *Engine) Update(ctx context.Context, id string, r provisioner.Registration, opts provisioner.UpdateOptions) (provisioner.Node, error) {
	n, err := e.client.Node(ctx, id)
	if err != nil {
		return provisioner.Node{}, translate(err)
	}
	if markIn(n.Extra) != r.Mark {
		return provisioner.Node{}, fmt.Errorf("update node %s: %w", id, provisioner.ErrNotOwned)
	}
	r, can, err := e.prepare(ctx, r)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("update node %s: %w", id, err)
	}
	if hasFormerInstance(n, r) {
		if n, err = e.client.UpdateNode(ctx, id, removeInstance); err != nil {
			return provisioner.Node{}, translate(err)
		}
	}
	changes, putOff, err := changesOf(n, r, opts, can, e.opts)
	if err != nil {
		return provisioner.Node{}, fmt.Errorf("update node %s: %w", id, err)
	}
	if n, err = e.apply(ctx, n, r, changes); err != nil {
		return provisioner.Node{}, translate(err)
	}
	updated := snapshotOf(n)
	updated.PutOff = putOff
	return updated, e.ensurePorts(ctx, id, r)
}

// CheckAccess reads the boot device; see [provisioner.Registrar]. Both engines' drivers ask the BMC
// for it.
func (e *Engine) CheckAccess(ctx context.Context, id string) error {
	return translateOfAccess(e.client.ReadBootDevice(ctx, id))
}

// Version returns the microversion; see [provisioner.Reader].
func (e *Engine) Version(ctx context.Context) (string, error) {
	version, err := e.client.Microversion(ctx)
	return version, translate(err)
}

// driverChange is the reason for the maintenance of a node in use while its driver changes. If the
// process ends meanwhile, it tells this maintenance from that of a person.
const driverChange = "the driver changes, because the host got the access to its BMC"

// apply makes the changes. Engines let the driver of a node in use change only in maintenance.
func (e *Engine) apply(ctx context.Context, n ironic.Node, r provisioner.Registration, changes patch) (ironic.Node, error) {
	replaced := r.Access != nil && r.Access.Driver != n.Driver
	within := n.Maintenance && n.MaintenanceReason == driverChange
	if replaced && !n.Maintenance && !slices.Contains(hardwareStates, node.State(n.ProvisionState)) {
		if err := e.client.SetMaintenance(ctx, n.UUID, driverChange); err != nil {
			return n, err
		}
		within = true
	}
	var err error
	switch {
	case len(changes) == 0:
	case replaced:
		n, err = e.client.ReplaceDriver(ctx, n.UUID, changes...)
	default:
		n, err = e.client.UpdateNode(ctx, n.UUID, changes...)
	}
	if err != nil || !within {
		return n, err
	}
	if err := e.client.SetMaintenance(ctx, n.UUID, ""); err != nil {
		return n, err
	}
	return e.client.Node(ctx, n.UUID)
}
