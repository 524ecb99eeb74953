// Package builtin puts the drivers that are part of Ingot into a registry.
package builtin

import (
	"maps"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/agentpower"
	"github.com/ingot-metal/ingot/internal/driver/fake"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/driver/netboot"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/node"
)

// Dependencies are what drivers need of the engine. With the zero value no ramdisk is ever alive or
// can be rebooted.
type Dependencies struct {
	// AgentAlive reports whether a node's ramdisk has sent a heartbeat recently. Nil means never.
	AgentAlive func(*node.Node) bool
	// AgentSilent reports whether a node's ramdisk has sent no heartbeat although the engine
	// listened all that time. Nil means whenever the ramdisk is not alive.
	AgentSilent func(*node.Node) bool
	// AgentReboot makes a node's ramdisk restart the machine. Nil means that machines
	// without a BMC cannot be rebooted.
	AgentReboot agentpower.Reboot
	// FakeMachine returns the machine of a node of fake hardware. Nil means the machine that
	// driver_info.fake_machine names, over HTTP.
	FakeMachine fake.Machines
	// IPMI is the driver for BMCs with IPMI. The zero value means that no interface has an
	// implementation named ipmitool.
	IPMI ipmi.Driver
	// Redfish is the driver for BMCs with Redfish, which the caller closes. The zero value means
	// that no interface has an implementation named redfish.
	Redfish redfish.Driver
	// Netboot says what boot interfaces serve to machines on the network, and Images gets the
	// images. With the zero values nothing is served, and the validation of nodes says so.
	Netboot netboot.Config
	Images  netboot.Images
	// Ramdisk is the driver for work in the ramdisk. The zero value means that there are no deploy
	// interfaces but fake, and no RAID and rescue interfaces named agent.
	Ramdisk ramdisk.Driver
}

// New builds the registry of all drivers. Its errors are those of driver.New.
func New(config driver.Config, needs Dependencies) (drivers *driver.Registry, err error) {
	built := implementations(needs)
	// Boot interfaces use the management interface that the node has chosen.
	management := func(n *node.Node) (driver.Management, error) {
		return driver.Ability[driver.Management](drivers, n, node.ManagementInterface, "boot devices")
	}
	media := func(n *node.Node) (driver.VirtualMedia, error) {
		return driver.Ability[driver.VirtualMedia](drivers, n, node.ManagementInterface, "virtual media")
	}
	maps.Copy(built[node.BootInterface], netboot.New(needs.Netboot, needs.Images, management, media).Interfaces())
	drivers, err = driver.New(config, built)
	return drivers, err
}

func implementations(needs Dependencies) driver.Implementations {
	if needs.FakeMachine == nil {
		needs.FakeMachine = fake.Remote()
	}
	type named = map[string]driver.Implementation
	built := driver.Implementations{
		node.BIOSInterface:       named{},
		node.BootInterface:       named{},
		node.ConsoleInterface:    named{"fake": passive{}},
		node.DeployInterface:     named{},
		node.FirmwareInterface:   named{},
		node.InspectInterface:    named{"agent": agentpower.Inspector{}},
		node.ManagementInterface: named{"noop": noManagement{}},
		node.NetworkInterface:    named{"noop": passive{}, "flat": passive{}},
		node.PowerInterface:      named{"agent": agentpower.Power{Alive: needs.AgentAlive, Silent: needs.AgentSilent, Reboot: needs.AgentReboot}},
		node.RAIDInterface:       named{},
		node.RescueInterface:     named{},
		node.StorageInterface:    named{"noop": passive{}, "fake": passive{}},
		node.VendorInterface:     named{},
	}
	for kind, implementation := range fake.New(needs.FakeMachine).Interfaces() {
		built[kind]["fake"] = implementation
	}
	for kind, implementation := range needs.IPMI.Interfaces() {
		built[kind]["ipmitool"] = implementation
	}
	for kind, implementation := range needs.Redfish.Interfaces() {
		built[kind]["redfish"] = implementation
	}
	for kind, implementations := range needs.Ramdisk.Interfaces() {
		maps.Copy(built[kind], implementations)
	}
	return built
}
