package agent

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/disk"
)

func TestCoreOSIsInstalledWithTheUserDataOfTheConfigDrive(t *testing.T) {
	for name, tc := range map[string]struct {
		instance, ignition, failure string
	}{
		"a text":         {`{"configdrive":{"user_data":"{}"},"image_source":"http://h/coreos"}`, "{}", ""},
		"a document":     {`{"configdrive":{"user_data":{"ignition":{}}}}`, `{"ignition":{}}`, ""},
		"none":           {`{"configdrive":{"meta_data":{}}}`, "", ""},
		"null":           {`{"configdrive":{"user_data":null}}`, "", ""},
		"no drive":       {`{}`, "", ""},
		"a built drive":  {`{"configdrive":"H4sI"}`, "", "file system"},
		"no such object": {`[]`, "", "read the node"},
	} {
		t.Run(name, func(t *testing.T) {
			disks := disk.NewSet("", "")
			a := newDiskAgent(t, disks, func(c *Config) { c.CoreOS = true })
			_, got := answered(t, a, "deploy.execute_deploy_step", `{"ports":[],"node":{"instance_info":`+tc.instance+`},"step":{"step":"install_coreos"}}`)
			if tc.failure != "" {
				failure, _ := got["command_error"].(map[string]any)
				details, _ := failure["details"].(string)
				if len(disks.Contents()) != 0 || !strings.Contains(details, tc.failure) {
					t.Errorf("the answer is %v, the disks are %v; want a failure with %q and empty disks", got, disks.Contents(), tc.failure)
				}
				return
			}
			device, _, ok := disks.Bootable()
			if ignition, _ := disks.ReadFile(device, disk.Ignition); !ok || string(ignition) != tc.ignition || got["command_status"] != statusSucceeded {
				t.Errorf("the answer is %v, the disk %q boots: %v, its Ignition configuration is %q, want %q", got, device, ok, ignition, tc.ignition)
			}
		})
	}
}

func TestOnlyARamdiskForCoreOSInstallsIt(t *testing.T) {
	for coreOS, status := range map[bool]string{false: statusFailed, true: statusSucceeded} {
		a := newDiskAgent(t, disk.NewSet("", ""), func(c *Config) { c.CoreOS = coreOS })
		_, list := answered(t, a, "deploy.get_deploy_steps", `{"node":{},"ports":[]}`)
		steps, _ := list["command_result"].(map[string]any)["deploy_steps"].(map[string]any)
		_, listed := steps["CoreOSInstallHardwareManager"]
		_, got := answered(t, a, "deploy.execute_deploy_step", stepHead+`{"step":"install_coreos"}}`)
		if listed != coreOS || got["command_status"] != status {
			t.Errorf("CoreOS %v: the step is listed: %v, its command ends as %v, want %s", coreOS, listed, got, status)
		}
	}
}
