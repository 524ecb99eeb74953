package ramdisk

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/node"
)

// sum is a SHA-256 checksum.
var sum = strings.Repeat("0a", 32)

func TestImageIsDescribedToTheAgent(t *testing.T) {
	for name, tc := range map[string]struct {
		instance map[string]any
		want     map[string]any // part of image_info
		invalid  string         // part of the error
		md5      bool           // is allowed
	}{
		"qcow2 with a checksum":   {instance: map[string]any{"image_source": "http://192.0.2.1/i.qcow2", "image_checksum": sum}, want: map[string]any{"disk_format": "qcow2", "os_hash_algo": "sha256", "os_hash_value": sum}},
		"either format":           {instance: map[string]any{"image_source": "https://192.0.2.1/i.img", "image_checksum": sum}, want: map[string]any{"disk_format": nil, "stream_raw_images": false}},
		"raw, by its name":        {instance: map[string]any{"image_source": "https://192.0.2.1/i.RAW", "image_checksum": sum + sum}, want: map[string]any{"disk_format": "raw", "stream_raw_images": true, "os_hash_algo": "sha512"}},
		"algorithm and value":     {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "SHA-256", "image_os_hash_value": strings.ToUpper(sum)}, want: map[string]any{"os_hash_algo": "sha256", "os_hash_value": sum}},
		"URL of checksums":        {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": "http://192.0.2.1/sums"}, want: map[string]any{"checksum": "http://192.0.2.1/sums"}},
		"URL and its algorithm":   {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "SHA-512", "image_os_hash_value": "https://192.0.2.1/sums"}, want: map[string]any{"os_hash_algo": "sha512", "os_hash_value": "https://192.0.2.1/sums", "checksum": nil}},
		"URL of MD5, allowed":     {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "md5", "image_os_hash_value": "http://192.0.2.1/sums"}, want: map[string]any{"checksum": "http://192.0.2.1/sums", "os_hash_algo": nil}, md5: true},
		"URL of MD5":              {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "md5", "image_os_hash_value": "http://192.0.2.1/sums"}, invalid: "MD5"},
		"URL and no algorithm":    {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "crc", "image_os_hash_value": "http://192.0.2.1/sums"}, invalid: "cannot be used"},
		"file of checksums":       {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_os_hash_algo": "sha256", "image_os_hash_value": "file:///etc/passwd"}, invalid: "cannot be used"},
		"no image":                {invalid: "image_source"},
		"path":                    {instance: map[string]any{"image_source": "file:///etc/passwd", "image_checksum": sum}, invalid: "no http or https URL"},
		"no checksum":             {instance: map[string]any{"image_source": "http://192.0.2.1/i"}, invalid: "no checksum"},
		"MD5 where it is allowed": {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": sum[:32]}, want: map[string]any{"checksum": sum[:32], "os_hash_algo": nil}, md5: true},
		"MD5":                     {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": sum[:32]}, invalid: "MD5"},
		"checksum of odd length":  {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": "abc"}, invalid: "cannot be used"},
		"format nobody can write": {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": sum, "image_disk_format": "vmdk"}, invalid: "vmdk"},
		"partition image":         {instance: map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": sum, "image_type": "partition"}, invalid: "whole-disk"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := imageInfo(&node.Node{UUID: "u", InstanceInfo: node.ObjectOf(tc.instance)}, tc.md5)
			if tc.invalid != "" {
				if err == nil || !strings.Contains(err.Error(), tc.invalid) {
					t.Errorf("got %v, want %q in it", err, tc.invalid)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range tc.want {
				if diff := cmp.Diff(want, got[key]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", key, diff)
				}
			}
		})
	}
}

// TestImageHasANameThatCanBeAFile: agents download into a file of that name.
func TestImageHasANameThatCanBeAFile(t *testing.T) {
	for source, want := range map[string]string{
		"https://192.0.2.1/a/server.qcow2?key=/x/y#z":  "server.qcow2",
		"http://192.0.2.1/a/Ubuntu%2024.04+1.img":      "Ubuntu_24.04_1.img",
		"http://192.0.2.1/a%2Fb":                       "b",
		"http://192.0.2.1/bär":                         "b_r",
		"http://192.0.2.1/folder/":                     "folder",
		"http://192.0.2.1":                             "image",
		"http://192.0.2.1/":                            "image",
		"http://192.0.2.1/a/.":                         "image",
		"http://192.0.2.1/a/..":                        "image",
		"http://192.0.2.1/" + strings.Repeat("x", 500): strings.Repeat("x", maxImageName),
		"5b3f0b1e-8f4c-4a57-9a5d-0d6a3f1e7c11":         "5b3f0b1e-8f4c-4a57-9a5d-0d6a3f1e7c11",
	} {
		parsed, err := url.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if got := imageName(parsed); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// TestEachImageHasANameOfItsOwn: an agent that goes on would leave the first image on the disk.
func TestEachImageHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, instance := range []map[string]any{
		{"image_source": "http://192.0.2.1/v1/i.qcow2", "image_checksum": sum},
		{"image_source": "http://192.0.2.1/v2/i.qcow2", "image_checksum": sum},
		{"image_source": "http://192.0.2.1/v2/i.qcow2", "image_checksum": sum + sum},
		{"image_source": "http://192.0.2.1/v2/i.qcow2", "image_os_hash_algo": "sha256", "image_os_hash_value": sum},
	} {
		info, err := imageInfo(&node.Node{UUID: "u", InstanceInfo: node.ObjectOf(instance)}, false)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info["id"].(string)
		if !strings.HasPrefix(id, "i.qcow2-") || strings.Contains(id, "/") || seen[id] {
			t.Errorf("%v is named %q after %v", instance, id, seen)
		}
		seen[id] = true
	}
}

// recorded is the answer of a real agent to clean.get_clean_steps, shortened.
const recorded = `{"clean_steps": {"GenericHardwareManager": [
	{"step": "erase_devices", "priority": 10, "interface": "deploy", "reboot_requested": false, "abortable": true},
	{"step": "create_configuration", "priority": 0, "interface": "raid", "reboot_requested": false, "abortable": true}]},
	"hardware_manager_version": {"generic_hardware_manager": "1.2"}}`

func TestStepsOfTheAgentAreOfferedByTheirInterface(t *testing.T) {
	d := driverOf(&standIn{result: recorded}, true)
	n := &node.Node{UUID: "u"}
	out, err := d.AskSteps(t.Context(), n, driver.CleanSteps)
	if err != nil {
		t.Fatal(err)
	}
	out.Apply(n)
	deploy := Deploy{Driver: d, core: directSteps}.Steps(n, driver.CleanSteps)
	if len(deploy) != 1 || deploy[0].Step != "erase_devices" || deploy[0].Priority != 10 || !deploy[0].RequiresRamdisk || !deploy[0].Abortable {
		t.Errorf("deploy interface: %+v", deploy)
	}
	if raid := (RAID{d}).Steps(n, driver.CleanSteps); len(raid) != 1 || raid[0].Step != "create_configuration" {
		t.Errorf("RAID interface: %+v", raid)
	}
	if other := (RAID{d}).Steps(n, driver.ServiceSteps); len(other) != 0 {
		t.Errorf("it offers steps of another kind: %+v", other)
	}
}

func TestAnswersWithoutUsableStepsAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	for name, answer := range map[string]string{
		"no steps":          `{}`,
		"a text":            `"steps"`,
		"a step unnamed":    `{"clean_steps": {"m": [{"interface": "deploy"}]}, "hardware_manager_version": {}}`,
		"negative priority": `{"clean_steps": {"m": [{"interface": "deploy", "step": "x", "priority": -1}]}, "hardware_manager_version": {}}`,
		"too many":          `{"clean_steps": {"m": [` + strings.TrimSuffix(strings.Repeat(`{"interface":"deploy","step":"x"},`, maxSteps+1), ",") + `]}}`,
		"a long interface":  `{"clean_steps": {"m": [{"interface": "` + long + `", "step": "x"}]}}`,
		"a long version":    `{"clean_steps": {}, "hardware_manager_version": {"m": "` + long + `"}}`,
		"a long manager":    `{"clean_steps": {}, "hardware_manager_version": {"` + long + `": "1"}}`,
		"a huge answer":     `{"clean_steps": {}, "x": "` + strings.Repeat("x", maxStepList) + `"}`,
	} {
		if _, err := driverOf(&standIn{result: answer}, true).AskSteps(t.Context(), machine, driver.CleanSteps); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestAgentDoesNotOfferWhatTheEngineDoesItself: a step of that name would hold the node, or
// change its power.
func TestAgentDoesNotOfferWhatTheEngineDoesItself(t *testing.T) {
	answer := `{"clean_steps": {"m": [{"interface": "deploy", "step": "hold", "priority": 5}]}}`
	n := &node.Node{UUID: "u"}
	out, err := driverOf(&standIn{result: answer}, true).AskSteps(t.Context(), n, driver.CleanSteps)
	if err != nil {
		t.Fatal(err)
	}
	out.Apply(n)
	if steps := (Deploy{core: directSteps}).Steps(n, driver.CleanSteps); len(steps) > 0 {
		t.Errorf("it offers %+v", steps)
	}
}

func TestCoreStepsComeBeforeThoseOfTheAgentWithTheirNames(t *testing.T) {
	n := &node.Node{DriverInternalInfo: node.ObjectOf(map[string]any{stepsKey(driver.DeploySteps): []node.Step{
		{Interface: "deploy", Step: "write_image", RequiresRamdisk: true}, {Interface: "deploy", Step: "inject_files", RequiresRamdisk: true},
	}})}
	var names []string
	for _, s := range (Deploy{core: directSteps}).Steps(n, driver.DeploySteps) {
		names = append(names, s.Step)
	}
	want := []string{"deploy", "write_image", "prepare_instance_boot", "tear_down_agent", "switch_to_tenant_network", "boot_instance", "inject_files"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBootModeIsThatOfTheInstanceThenOfTheMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		n    node.Node
		want string
	}{
		"nothing said": {node.Node{}, "uefi"},
		"properties":   {node.Node{Properties: node.ObjectOf(map[string]any{"capabilities": "a:b, boot_mode:bios"})}, "bios"},
		"instance": {node.Node{
			InstanceInfo: node.ObjectOf(map[string]any{"capabilities": map[string]string{"boot_mode": "uefi"}}),
			Properties:   node.ObjectOf(map[string]any{"capabilities": "boot_mode:bios"}),
		}, "uefi"},
		"instance, as text": {node.Node{InstanceInfo: node.ObjectOf(map[string]any{"capabilities": `{"boot_mode": "bios"}`})}, "bios"},
		"as it was read":    {node.Node{BootMode: "bios"}, "bios"},
	} {
		if got := bootMode(&tc.n); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestBootLoaderIsInstalledForUEFIAndOnSoftwareRAID(t *testing.T) {
	software := node.Object(`{"logical_disks": [{"controller": "HBA 1"}, {"size_gb": "MAX", "raid_level": "1", "controller": "software"}]}`)
	hardware := node.Object(`{"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}`)
	given := map[string]any{"image_rootfs_uuid": "given"}
	order := func(root any, mode string) map[string]any {
		return map[string]any{"root_uuid": root, "efi_system_part_uuid": nil, "prep_boot_part_uuid": nil, "target_boot_mode": mode}
	}
	const found, nothing = `{"root uuid": "found"}`, `{}`
	for name, tc := range map[string]struct {
		mode     string
		raid     node.Object
		instance map[string]any
		result   string // of the question for UUIDs
		want     map[string]any
	}{
		"UEFI":                           {"uefi", nil, given, found, order(nil, "uefi")},
		"UEFI, RAID of a controller":     {"uefi", hardware, given, found, order(nil, "uefi")},
		"UEFI, software RAID":            {"uefi", software, nil, found, order("found", "uefi")},
		"BIOS":                           {"bios", nil, given, found, nil},
		"BIOS, RAID of a controller":     {"bios", hardware, given, found, nil},
		"BIOS, software RAID":            {"bios", software, nil, found, order("found", "bios")},
		"BIOS, UUID of the instance":     {"bios", software, given, found, order("given", "bios")},
		"BIOS, an agent that has none":   {"bios", software, nil, nothing, order(nil, "bios")},
		"BIOS, an agent that has a null": {"bios", software, nil, `{"root uuid": null}`, order(nil, "bios")},
	} {
		t.Run(name, func(t *testing.T) {
			s := &standIn{commands: []agent.Command{asked}, result: tc.result}
			d := Deploy{Driver: driverOf(s, true), core: directSteps}
			n := &node.Node{UUID: "u", BootMode: tc.mode, TargetRAIDConfig: tc.raid, InstanceInfo: node.ObjectOf(tc.instance)}
			var turn driver.Turn
			for range 2 { // to store the last command, and to send this one
				out, err := d.RunStep(t.Context(), n, driver.DeploySteps, prepareBoot, turn)
				if err != nil {
					t.Fatal(err)
				}
				turn = driver.Turn{Attempt: driver.Continued, Phase: out.Phase, Handle: out.Handle}
			}
			var sent map[string]any
			if last := len(s.sent) - 1; last >= 0 {
				sent = s.sent[last]
			}
			if diff := cmp.Diff(tc.want, sent); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBootLoaderWhoseAnswerWasLostIsNotInstalledAgain(t *testing.T) {
	s := &standIn{commands: []agent.Command{asked}, result: `{"root uuid": "found"}`}
	d := Deploy{Driver: driverOf(s, true), core: directSteps}
	n := &node.Node{UUID: "u", BootMode: "bios", TargetRAIDConfig: node.Object(`{"logical_disks": [{"controller": "software"}]}`)}
	for _, attempt := range []driver.Attempt{driver.Continued, driver.Unknown} {
		out, err := d.RunStep(t.Context(), n, driver.DeploySteps, prepareBoot, driver.Turn{Attempt: attempt, Phase: phaseToSend, Handle: asked.ID})
		if err != nil || out.Handle != "c3" || len(s.sent) != 2 {
			t.Errorf("got %+v, %v with %d commands sent, want the command c3 to be followed", out, err, len(s.sent))
		}
	}
}

func TestConfigDriveGoesToTheAgentAsItTakesIt(t *testing.T) {
	for name, tc := range map[string]struct {
		drive   any
		invalid string
		want    string // what it begins with; empty for none
	}{
		"none":       {nil, "", ""},
		"URL":        {"https://192.0.2.1/drive", "", "https://192.0.2.1/drive"},
		"data":       {map[string]any{"user_data": "#cloud-config"}, "", "H4sI"}, // gzip, as base64
		"no image":   {"aGVsbG8=", "config drive of node", ""},
		"other keys": {map[string]any{"userdata": "x"}, "config drive of node", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{UUID: "u", InstanceInfo: node.ObjectOf(map[string]any{"configdrive": tc.drive})}
			got, err := configDrive(n)
			text, _ := got.(string)
			switch {
			case tc.invalid != "":
				if err == nil || !strings.Contains(err.Error(), tc.invalid) || (Deploy{}).CheckInstance(n) == nil {
					t.Errorf("got %v, want %q in it, also before a deployment", err, tc.invalid)
				}
			case err != nil || !strings.HasPrefix(text, tc.want) || tc.want == "" && got != nil:
				t.Errorf("got %v, %v, want %q…", got, err, tc.want)
			}
		})
	}
}

func TestAuthoritiesOfAgentsAreAPathOrNone(t *testing.T) {
	for value, valid := range map[any]bool{nil: true, false: true, "false": true, true: true, "/etc/ca.pem": true, "": true, "ca.pem": false, 7: false} {
		n := &node.Node{UUID: "u", DriverInfo: node.ObjectOf(map[string]any{"agent_verify_ca": value})}
		if err := (Deploy{}).Validate(n); (err == nil) != valid {
			t.Errorf("%v: %v, want it valid: %v", value, err, valid)
		}
	}
}
