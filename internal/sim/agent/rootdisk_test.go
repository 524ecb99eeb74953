package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/disk"
)

// twoDisks gives a machine two disks, of which an agent without hints takes the smaller one.
func twoDisks(c *Config) {
	small := fmt.Sprintf(`{"name":"/dev/sda","size":%d,"rotational":false,"model":"INTEL SSD","serial":"A1","wwn":null,"hctl":"0:0:0:0"}`, 100<<30)
	large := fmt.Sprintf(`{"name":"/dev/sdb","size":%d,"rotational":true,"model":"ST4000NM","serial":"B2","wwn":"0x5","hctl":"1:0:0:0"}`, 400<<30)
	c.Document = func() []byte {
		return []byte(`{"inventory":{"disks":[` + small + `,` + large + `]},"root_disk":` + small + `}`)
	}
}

func TestImageIsWrittenToTheDiskThatTheRootDeviceHintsFit(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	write := `"ports":[],"step":{"step":"write_image","args":{"image_info":` + image.info("") + `,"configdrive":null}}}`
	for name, test := range map[string]struct{ instance, properties, want string }{
		"none":                 {"{}", "{}", "/dev/sda"},
		"larger":               {"{}", `{"size":">= 200"}`, "/dev/sdb"},
		"at least":             {"{}", `{"size":"= 200"}`, "/dev/sdb"},
		"exact size":           {"{}", `{"size":400}`, "/dev/sdb"},
		"one of two sizes":     {"{}", `{"size":"<or> 300 <or> 400"}`, "/dev/sdb"},
		"other name":           {"{}", `{"name":"s!= /dev/sda"}`, "/dev/sdb"},
		"name of the operator": {"{}", `{"name":"s== /dev/sdb"}`, "/dev/sdb"},
		"part of a model":      {"{}", `{"model":"<in> st4000"}`, "/dev/sdb"},
		"one of two":           {"{}", `{"serial":"<or> X9 <or> B2"}`, "/dev/sdb"},
		"kind":                 {"{}", `{"rotational":"true","hctl":"1:0:0:0"}`, "/dev/sdb"},
		"number that is there": {"{}", `{"wwn":"0x5"}`, "/dev/sdb"},
		"both fit":             {"{}", `{"size":"> 10"}`, "/dev/sda"},
		"instance comes first": {`{"serial":"b2"}`, `{"serial":"A1"}`, "/dev/sdb"},
	} {
		disks := disk.NewSet("", "")
		_, got := answered(t, newDiskAgent(t, disks, twoDisks), "deploy.execute_deploy_step",
			`{"node":{"instance_info":{"root_device":`+test.instance+`},"properties":{"root_device":`+test.properties+`}},`+write)
		if device, _, _ := disks.Bootable(); got["command_status"] != statusSucceeded || device != test.want {
			t.Errorf("%s: command is %v and wrote to %q, want %s", name, got, device, test.want)
		}
	}
}

func TestNothingIsWrittenWithoutADiskThatTheHintsFit(t *testing.T) {
	image := serveImage(t, diskImage(10_000))
	small := func(c *Config) { c.Document = func() []byte { return []byte(`{"root_disk":null}`) } }
	for name, test := range map[string]struct {
		hints, details string
		machine        func(*Config)
	}{
		"no such serial": {`{"serial":"s== X9"}`, "No suitable device was found for deployment using these hints {'serial': 's== X9'}", twoDisks},
		"one of two":     {`{"serial":"B2","rotational":false}`, "No suitable device was found", twoDisks},
		"unreadable":     {`{"size":"large"}`, "No suitable device could be found for deployment using these hints {'size': 'large'}. Error: ", twoDisks},
		"no disk":        {`{}`, "root device hints were not provided", small},
	} {
		a := newDiskAgent(t, nil, test.machine)
		answered(t, a, "deploy.get_deploy_steps", `{"ports":[],"node":{"properties":{"root_device":`+test.hints+`}}}`)
		got := prepare(t, a, image.info(""), "null")
		failure, _ := got["command_error"].(map[string]any)
		if failure["type"] != "DeviceNotFound" || !strings.Contains(fmt.Sprint(failure["details"]), test.details) || len(a.config.Disks.Contents()) != 0 {
			t.Errorf("%s: command is %v, want DeviceNotFound with %q", name, got, test.details)
		}
	}
}

func TestHintsOfTheNodeThatWasLookedUpCount(t *testing.T) {
	e := newEngine(t)
	found := lookupDocument(recordedToken, 300)
	found.body = strings.Replace(found.body, `"node":{`, `"node":{"properties":{"root_device":{"serial":"B2"}},`, 1)
	e.answer(CallLookup, found)
	a := newAgent(t, e, func(c *Config) {
		twoDisks(c)
		c.Clock = newFakeClock(true)
	})
	run(t, a)
	e.awaitCalls(t, CallHeartbeat, 1)
	if root, failure := a.rootDisk(); root.Name != "/dev/sdb" || failure != nil {
		t.Errorf("the root disk is %q, %v, want /dev/sdb", root.Name, failure)
	}
}
