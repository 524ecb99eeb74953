package agent

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// extensions is the command table: the commands by extension and name.
var extensions = map[string]map[string]command{
	"clean":   stepCommands(cleanSteps),
	"deploy":  stepCommands(deploySteps),
	"service": stepCommands(serviceSteps),
	"standby": {
		"cache_image": {
			method: "StandbyExtension.cache_image", async: true, check: checkImageInfo,
			duration: lasting(seconds(5, 10)), run: cacheImage,
		},
		"prepare_image": {
			method: "StandbyExtension.prepare_image", async: true, check: checkImageInfo,
			duration: lasting(seconds(8, 20)), run: prepareImage,
		},
		"get_partition_uuids": {run: partitionUUIDs},
		"sync":                {run: nothing},
		"power_off":           {async: true, run: nothing, then: ErrPoweredOff},
		"run_image":           {async: true, run: nothing, then: ErrRebooted},
	},
	"image": {
		"install_bootloader": {
			method: "ImageExtension.install_bootloader", required: []string{"root_uuid"}, async: true,
			duration: lasting(seconds(2, 5)), run: installBootloader,
		},
	},
	"rescue": {
		"finalize_rescue": {method: "RescueExtension.finalize_rescue", run: finalizeRescue, then: ErrRescued},
	},
	"log": {
		"collect_system_logs": {run: collectLogs},
	},
	"poll": {
		"get_hardware_info": {run: hardwareInfo},
		"set_node_info":     {method: "PollExtension.set_node_info", required: []string{"node_info"}, run: nothing},
	},
}

// nothing carries out a command that does nothing.
func nothing(*execution, params) (any, *commandError) { return nil, nil }

// finalizeRescue sets the password of the rescue system. The real agent hashes a password that
// arrives in clear. Nobody should send one, so the journal shows it.
func finalizeRescue(x *execution, p params) (any, *commandError) {
	var password string
	var hashed bool
	_ = json.Unmarshal(p["rescue_password"], &password) // the real agent takes anything, too
	_ = json.Unmarshal(p["hashed"], &hashed)
	if !hashed {
		password = "in clear: " + password
	}
	x.note(effect.RescuePassword, password, x.clock.Now())
	return nil, nil
}

// hardwareInfo carries out a command that returns the inventory.
func hardwareInfo(a *execution, _ params) (any, *commandError) {
	var document struct {
		Inventory json.RawMessage `json:"inventory"`
	}
	if err := json.Unmarshal(a.config.Document(), &document); err != nil {
		return nil, executionError(fmt.Sprintf("read the hardware: %v", err))
	}
	return document.Inventory, nil
}

// collectLogs carries out the command that returns the ramdisk's logs.
func collectLogs(a *execution, _ params) (any, *commandError) {
	logs, err := logArchive(a.version, a.config.Hostname, a.started, a.commands.documents())
	if err != nil {
		return nil, executionError(fmt.Sprintf("collect logs: %v", err))
	}
	return map[string]string{"system_logs": logs}, nil
}
