package redfish

import (
	"context"
	"errors"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// firmwareInterface is the firmware interface of the driver.
type firmwareInterface struct{ Driver }

var _ driver.Firmware = firmwareInterface{}

// FirmwareComponents reads the versions of the BIOS, of the BMC and of the network adapters. It
// leaves out components whose version the BMC does not tell. When the BMC fails to show one kind of
// component, it returns the error together with the components of the other kinds.
func (f firmwareInterface) FirmwareComponents(ctx context.Context, n *node.Node) ([]node.FirmwareComponent, error) {
	var components []node.FirmwareComponent
	err := f.with(ctx, n, "read firmware versions", driver.Turn{}, func(c *call) (err error) {
		components, err = c.components()
		return err
	})
	return components, err
}

// readers read the versions of each kind of component, in the order of their list.
var readers = []struct {
	prefix string // of their names
	read   func(*call, *schemas.ComputerSystem) ([]node.FirmwareComponent, error)
}{
	{"bios", func(_ *call, system *schemas.ComputerSystem) ([]node.FirmwareComponent, error) {
		return component("bios", system.BiosVersion), nil
	}},
	{"bmc", func(c *call, system *schemas.ComputerSystem) ([]node.FirmwareComponent, error) {
		managers, err := c.managers(system)
		if err != nil || len(managers) == 0 {
			return nil, err
		}
		return component("bmc", managers[0].FirmwareVersion), nil
	}},
	{"nic:", func(c *call, system *schemas.ComputerSystem) ([]node.FirmwareComponent, error) {
		adapters, err := c.networkAdapters(system)
		var all []node.FirmwareComponent
		for _, adapter := range adapters {
			if len(adapter.Controllers) > 0 {
				all = append(all, component("nic:"+adapter.ID, adapter.Controllers[0].FirmwarePackageVersion)...)
			}
		}
		return all, err
	}},
}

// component returns a list of one component, or an empty list without a version.
func component(name, version string) []node.FirmwareComponent {
	if version == "" {
		return nil
	}
	return []node.FirmwareComponent{{Component: name, InitialVersion: version, CurrentVersion: version}}
}

func (c *call) components() ([]node.FirmwareComponent, error) {
	system, err := c.system()
	if err != nil {
		return nil, err
	}
	var all []node.FirmwareComponent
	var failed error
	for _, row := range readers {
		some, err := row.read(c, system)
		all, failed = append(all, some...), errors.Join(failed, err)
		if err != nil && statusOf(err) == 0 { // the BMC does not answer
			break
		}
	}
	return all, failed
}

// version reads the version of one component; it is empty when the BMC does not tell.
// It reads no others: a BMC that cannot list its adapters can update its BIOS.
func (c *call) version(name string) (string, error) {
	system, err := c.system()
	if err != nil {
		return "", err
	}
	for _, row := range readers {
		if !strings.HasPrefix(name, row.prefix) {
			continue
		}
		some, err := row.read(c, system)
		if err != nil {
			return "", err
		}
		for _, one := range some {
			if one.Component == name {
				return one.CurrentVersion, nil
			}
		}
	}
	return "", nil
}

// manager is what the driver reads of a manager (DSP0268, Manager).
type manager struct {
	FirmwareVersion string
	VirtualMedia    schemas.Link
	Links           struct{ ManagerForServers schemas.Links }
}

// managers reads the managers of a system.
func (c *call) managers(system *schemas.ComputerSystem) ([]manager, error) {
	relations, err := relationsOf(system)
	if err != nil {
		return nil, err
	}
	return readEach[manager](c, relations.Links.ManagedBy.ToStrings())
}

// networkAdapter is what the driver reads of a network adapter (DSP0268, NetworkAdapter).
type networkAdapter struct {
	ID          string `json:"Id"`
	Controllers []struct{ FirmwarePackageVersion string }
}

// networkAdapters reads the network adapters in the chassis of a system.
func (c *call) networkAdapters(system *schemas.ComputerSystem) ([]networkAdapter, error) {
	relations, err := relationsOf(system)
	if err != nil {
		return nil, err
	}
	chassis, err := readEach[struct{ NetworkAdapters schemas.Link }](c, relations.Links.Chassis.ToStrings())
	if err != nil {
		return nil, err
	}
	var all []networkAdapter
	for _, one := range chassis {
		paths, err := c.members(one.NetworkAdapters.String())
		if err != nil {
			return nil, err
		}
		adapters, err := readEach[networkAdapter](c, paths)
		if err != nil {
			return nil, err
		}
		all = append(all, adapters...)
	}
	return all, nil
}
