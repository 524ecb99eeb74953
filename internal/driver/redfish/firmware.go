package redfish

import (
	"context"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// firmwareInterface is the firmware interface of the driver.
type firmwareInterface struct{ Driver }

var _ driver.Firmware = firmwareInterface{}

// FirmwareComponents reads the versions of the BIOS, of the BMC and of the network
// adapters. A component whose version the BMC does not tell is left out.
func (f firmwareInterface) FirmwareComponents(ctx context.Context, n *node.Node) ([]node.FirmwareComponent, error) {
	var components []node.FirmwareComponent
	err := f.with(ctx, n, "read firmware versions", driver.Turn{}, func(c *call) (err error) {
		components, err = c.components()
		return err
	})
	return components, err
}

func (c *call) components() ([]node.FirmwareComponent, error) {
	var components []node.FirmwareComponent
	add := func(name, version string) {
		if version != "" {
			components = append(components, node.FirmwareComponent{Component: name, InitialVersion: version, CurrentVersion: version})
		}
	}
	system, err := c.system()
	if err != nil {
		return nil, err
	}
	add("bios", system.BiosVersion)
	managers, err := system.ManagedBy()
	if err != nil {
		return nil, err
	}
	if len(managers) > 0 {
		add("bmc", managers[0].FirmwareVersion)
	}
	adapters, err := networkAdapters(system)
	if err != nil {
		return nil, err
	}
	for _, adapter := range adapters {
		if len(adapter.Controllers) > 0 {
			add("nic:"+adapter.ID, adapter.Controllers[0].FirmwarePackageVersion)
		}
	}
	return components, nil
}

// version reads the version of one component; it is empty when the BMC does not tell.
func (c *call) version(component string) (string, error) {
	components, err := c.components()
	for _, one := range components {
		if one.Component == component {
			return one.CurrentVersion, nil
		}
	}
	return "", err
}

// networkAdapters reads the network adapters in the chassis of a system.
func networkAdapters(system *schemas.ComputerSystem) ([]*schemas.NetworkAdapter, error) {
	chassis, err := system.Chassis()
	if err != nil {
		return nil, err
	}
	var all []*schemas.NetworkAdapter
	for _, one := range chassis {
		adapters, err := one.NetworkAdapters()
		if err != nil {
			return nil, err
		}
		all = append(all, adapters...)
	}
	return all, nil
}
