package driver

import "github.com/ingot-metal/ingot/internal/node"

// implementations is everything that is built, by interface and name. A name of
// the table of hardware types that is not here can be chosen and says so when it
// is used; names that begin with "no-" need none.
func implementations(config Config) [node.InterfaceCount]map[string]Implementation {
	type named = map[string]Implementation
	return [node.InterfaceCount]map[string]Implementation{
		node.BIOSInterface: named{"fake": fakeBIOS{fakeStepper{steps: outOfBand(
			node.Step{Step: "apply_configuration"}, node.Step{Step: "factory_reset"})}}},
		node.BootInterface:    named{"fake": Fake{}},
		node.ConsoleInterface: named{"fake": passive{}},
		node.DeployInterface:  named{"fake": fakeDeploy},
		node.FirmwareInterface: named{"fake": fakeFirmware{fakeStepper{steps: outOfBand(
			node.Step{Step: "update"})}}},
		node.InspectInterface:    named{"fake": Fake{}, "agent": agentInspector{}},
		node.ManagementInterface: named{"fake": fakeManagement, "noop": noManagement{}},
		node.NetworkInterface:    named{"noop": passive{}, "flat": passive{}},
		node.PowerInterface:      named{"fake": Fake{}, "agent": Agent{Alive: config.AgentAlive, Reboot: config.AgentReboot}},
		node.RAIDInterface: named{"fake": fakeRAID{fakeStepper{steps: outOfBand(
			node.Step{Step: "create_configuration"}, node.Step{Step: "delete_configuration"})}}},
		node.RescueInterface:  named{"fake": Fake{}},
		node.StorageInterface: named{"noop": passive{}, "fake": passive{}},
		node.VendorInterface:  named{"fake": fakeVendor{}},
	}
}
