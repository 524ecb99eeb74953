package agent

import (
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/sim/disk"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// installCoreOS is the deploy step that installs CoreOS. It takes the place of write_image.
var installCoreOS = stepInfo{Step: "install_coreos", Interface: "deploy"}

// coreOSSteps are the deploy steps of a ramdisk with the hardware manager that Metal3 publishes for
// CoreOS.
var coreOSSteps = stepKind{name: deploySteps.name, class: deploySteps.class, managers: map[string][]stepInfo{
	proliant:                       deploySteps.managers[proliant],
	generic:                        deploySteps.managers[generic],
	"CoreOSInstallHardwareManager": {installCoreOS},
}}

// coreOSCommands are the commands of the extension deploy in a ramdisk with this hardware manager.
var coreOSCommands = stepCommands(coreOSSteps)

// installCoreOS writes CoreOS to the root disk, with the user data of the node's config drive as
// its Ignition configuration. Without user data there is no Ignition configuration, and no error:
// the real hardware manager does the same.
func (x *execution) installCoreOS(node json.RawMessage) *commandError {
	var n struct {
		Instance struct {
			Image string          `json:"image_source"` // empty: the ramdisk has one
			Drive json.RawMessage `json:"configdrive"`
		} `json:"instance_info"`
	}
	var drive struct {
		UserData json.RawMessage `json:"user_data"`
	}
	if err := json.Unmarshal(node, &n); err != nil {
		return executionError(fmt.Sprintf("read the node: %v", err))
	}
	if len(n.Instance.Drive) > 0 && json.Unmarshal(n.Instance.Drive, &drive) != nil {
		return stepError(x.extension, "The config drive is a file system, and only user data in JSON can be used.")
	}
	root, failure := x.rootDisk()
	if failure != nil {
		return failure
	}
	began := x.clock.Now()
	w, err := x.config.Disks.Write(root.Name, root.Size)
	if err == nil {
		err = w.Commit(disk.Image{URL: n.Instance.Image, Format: disk.Raw, Size: root.Size, Bootable: true})
	}
	if err != nil {
		return executionError(err.Error())
	}
	x.note(effect.Write, root.Name+" CoreOS "+n.Instance.Image, began)
	if ignition := ignitionOf(drive.UserData); ignition != "" {
		x.config.Disks.WriteFile(root.Name, disk.Ignition, []byte(ignition))
	}
	return nil
}

// ignitionOf returns the Ignition configuration in user data, or "" if there is none. The user data
// is a text or the document itself.
func ignitionOf(userData json.RawMessage) (ignition string) {
	if json.Unmarshal(userData, &ignition) == nil || len(userData) == 0 {
		return ignition
	}
	return string(userData)
}
