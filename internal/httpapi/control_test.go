package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/node"
)

const oneNode = "/v1/nodes/" + uuid1

func TestControlRequests(t *testing.T) {
	disk := `{"size_gb":100,"raid_level":"1","is_root_volume":true}`
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // the request to the engine, or a part of the fault
	}{
		{"PUT", "/states/power", `{"target":"power on"}`, 202, ""},
		{"PUT", "/states/power", `{"target":"soft power off","timeout":5}`, 202, ""},
		{"PUT", "/states/power", `{"target":"explode"}`, 400, `"explode"`},
		{"PUT", "/states/power", `{"target":"power on","timeout":0}`, 400, "from 1"},
		{"PUT", "/states/power", `{"target":"power on","timeout":"5"}`, 400, "whole number"},
		{"PUT", "/states/power", `{"target":"power on","colour":1}`, 400, "colour"},
		{"PUT", "/states/power", "", 400, "needs a JSON body"},
		{"PUT", "/management/boot_device", `{"boot_device":"disk"}`, 204, "boot from disk, persistent false"},
		{"PUT", "/management/boot_device", `{"boot_device":"pxe","persistent":true}`, 204, "boot from pxe, persistent true"},
		{"PUT", "/management/boot_device", `{"persistent":true}`, 400, "needs the key boot_device"},
		{"PUT", "/management/boot_device", `{"boot_device":"pxe","persistent":"x"}`, 400, "true or false"},
		{"PUT", "/management/inject_nmi", `{}`, 204, "interrupt"},
		{"PUT", "/management/inject_nmi", "", 204, "interrupt"},
		{"PUT", "/management/inject_nmi", `{"a":1}`, 400, "empty"},
		{"PUT", "/states/boot_mode", `{"target":"uefi"}`, 202, "boot mode uefi"},
		{"PUT", "/states/boot_mode", `{"target":"coreboot"}`, 400, "uefi or bios"},
		{"PUT", "/states/boot_mode", `{}`, 400, "needs the key target"},
		{"PUT", "/states/secure_boot", `{"target":true}`, 202, "secure boot true"},
		{"PUT", "/states/secure_boot", `{"target":"off"}`, 202, "secure boot false"},
		{"PUT", "/states/secure_boot", `{"target":3}`, 400, "true or false"},
		{"PUT", "/states/console", `{"enabled":true}`, 202, "console true"},
		{"PUT", "/states/console", `{}`, 400, "needs the key enabled"},
		{"PUT", "/states/raid", `{"logical_disks":[` + disk + `]}`, 204, `RAID {"logical_disks":[` + disk + `]}`},
		{"PUT", "/states/raid", `{"logical_disks":[]}`, 204, `RAID {"logical_disks":[]}`},
		{"PUT", "/states/raid", `{}`, 204, "RAID {}"},
		{"PUT", "/states/raid", `[]`, 400, "cannot be read"},
		{"PUT", "/states/raid", `{"disks":[]}`, 400, `"disks"`},
		{"PUT", "/states/raid", `{"logical_disks":[` + disk + `,` + disk + `]}`, 400, "root volumes"},
		{"PUT", "/states/raid", `{"logical_disks":[{"raid_level":"1"}]}`, 400, "lacks size_gb"},
		{"PUT", "/states/raid", `{"logical_disks":[{"size_gb":"MAX","raid_level":"7"}]}`, 400, "raid_level"},
		{"PUT", "/states/raid", `{"logical_disks":[{"size_gb":0,"raid_level":"1"}]}`, 400, "size_gb"},
		{"PUT", "/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"1","colour":1}]}`, 400, "colour"},
		{"PUT", "/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"1","physical_disks":[{"size":1e400}]}]}`, 400, "too large"},
		{"POST", "/vmedia", `{"device_type":"cdrom","image_url":"https://u:p@images/a.iso"}`, 204, "attach cdrom https://u:p@images/a.iso "},
		{"POST", "/vmedia", `{"device_type":"disk","image_url":"nfs://images/a","image_download_source":"local"}`, 204, "attach disk nfs://images/a local"},
		{"POST", "/vmedia", `{"device_type":"tape","image_url":"http://images/a"}`, 400, "device_type"},
		{"POST", "/vmedia", `{"device_type":"disk"}`, 400, "needs the key image_url"},
		{"POST", "/vmedia", `{"device_type":"disk","image_url":"file:///etc/passwd"}`, 400, "image_url"},
		{"POST", "/vmedia", `{"device_type":"disk","image_url":"http://images/a","image_download_source":"moon"}`, 400, "image_download_source"},
		{"DELETE", "/vmedia?device_types=cdrom,disk", "", 204, `detach ["cdrom" "disk"]`},
		{"DELETE", "/vmedia", "", 204, `detach []`},
		{"DELETE", "/vmedia?device_types=tape", "", 400, "device_types"},
		{"DELETE", "/vmedia", `{"device_types":"floppy"}`, 204, `detach ["floppy"]`},
		{"DELETE", "/vmedia?device_types=disk", `{"device_types":"floppy,cdrom"}`, 204, `detach ["floppy" "cdrom" "disk"]`},
		{"DELETE", "/vmedia", `{"device_types":["floppy","disk"]}`, 204, `detach ["floppy" "disk"]`},
		{"DELETE", "/vmedia", `{"device_types":null}`, 204, `detach []`},
		{"DELETE", "/vmedia", `{}`, 204, `detach []`},
		{"DELETE", "/vmedia", `{"device_types":"tape"}`, 400, "device_types"},
		{"DELETE", "/vmedia", `{"device_types":{"floppy":true}}`, 400, "device_types"},
		{"DELETE", "/vmedia", `{"device_type":"floppy"}`, 400, "device_type"},
		{"POST", "/vendor_passthru?method=sing", `{"loud":true}`, 200, `POST sing {"loud":true}`},
		{"DELETE", "/vendor_passthru/sing", "", 200, "DELETE sing {}"},
		{"POST", "/vendor_passthru", `{}`, 400, "name of a vendor method"},
		{"POST", "/vendor_passthru/sing", `[]`, 400, "JSON object"},
		{"GET", "/management/indicators", "", 400, "indicators"},
	} {
		s := newServer(t)
		s.addNode(uuid1)
		got := s.do(tt.method, oneNode+tt.path, "latest", tt.body).want(tt.status)
		switch {
		case tt.status >= 400:
			if text := fmt.Sprint(got.fault()["faultstring"]); !strings.Contains(text, tt.want) || len(s.engine.machine.asked) > 0 {
				t.Errorf("%s %s: fault %q, asked %q, want a fault about %q", got.what, tt.body, text, s.engine.machine.asked, tt.want)
			}
		case tt.want != "":
			if diff := cmp.Diff([]string{tt.want}, s.engine.machine.asked); diff != "" {
				t.Errorf("%s %s: asked (-want +got):\n%s", got.what, tt.body, diff)
			}
		}
		if tt.status == 202 && !strings.HasPrefix(got.header.Get("Location"), "http://example.com"+oneNode+"/states") {
			t.Errorf("%s: location %q", got.what, got.header.Get("Location"))
		}
	}
}

func TestControlOfAnUnknownNodeIsNotFound(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{
		"/validate", "/management/boot_device", "/management/boot_device/supported", "/bios", "/bios/x", "/history",
		"/history/" + uuid2, "/vendor_passthru/methods", "/states/console", "/management/indicators",
	} {
		s.get(oneNode + path).want(404)
	}
	for path, body := range map[string]string{
		"/states/power": `{"target":"power on"}`, "/states/raid": `{}`, "/states/boot_mode": `{"target":"uefi"}`,
		"/management/boot_device": `{"boot_device":"pxe"}`, "/management/inject_nmi": `{}`,
	} {
		s.do("PUT", oneNode+path, "latest", body).want(404)
	}
}

func TestPowerTimeoutReachesTheEngine(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1)
	s.do("PUT", oneNode+"/states/power", "1.27", `{"target":"soft rebooting","timeout":90}`).want(202)
	if s.engine.powerTimeout != 90*time.Second || n.TargetPowerState != node.SoftRebooting {
		t.Errorf("timeout %v, target %q", s.engine.powerTimeout, n.TargetPowerState)
	}
	s.do("PUT", oneNode+"/states/power", "1.26", `{"target":"soft rebooting"}`).want(406)
	s.do("PUT", oneNode+"/states/power", "1.26", `{"target":"power on","timeout":90}`).want(406)
}

func TestValidationHasAReasonForEachInterface(t *testing.T) {
	yes, no := true, false
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.machine.validation = map[node.InterfaceKind]node.Validation{
		node.PowerInterface: {Result: &yes}, node.BootInterface: {Result: &no, Reason: "No kernel."}, node.VendorInterface: {Result: &yes},
	}
	got := s.get(oneNode + "/validate").want(200).json()
	if len(got) != 12 || got["vendor"] != nil {
		t.Errorf("interfaces %v", got)
	}
	want := map[string]any{"result": false, "reason": "No kernel."}
	if diff := cmp.Diff(want, got["boot"]); diff != "" {
		t.Errorf("boot (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"result": nil}, got["raid"]); diff != "" {
		t.Errorf("raid (-want +got):\n%s", diff)
	}
}

func TestUnknownBootDeviceIsNull(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	want := map[string]any{"boot_device": nil, "persistent": nil}
	if diff := cmp.Diff(want, s.get(oneNode+"/management/boot_device").want(200).json()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := s.get(oneNode + "/management/boot_device/supported").want(200).json(); len(got["supported_boot_devices"].([]any)) != 2 {
		t.Errorf("devices %v", got)
	}
}

func TestBIOSSettingsByVersion(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	low := int64(1)
	s.engine.machine.hardware.BIOS = []node.BIOSSetting{{Name: "Delay", Value: "5", AttributeType: "Integer", LowerBound: &low, CreatedAt: testTime}}
	s.engine.machine.hardware.BIOS = append(s.engine.machine.hardware.BIOS,
		node.BIOSSetting{Name: "Admin", Value: "hunter2", AttributeType: "Password"}, node.BIOSSetting{Name: "None", AttributeType: "Password"})
	for name, want := range map[string]string{"Admin": mask, "None": ""} {
		if got := s.get(oneNode + "/bios/" + name).want(200).json()[name].(map[string]any)["value"]; got != want {
			t.Errorf("password %s is shown as %q, want %q", name, got, want)
		}
	}
	brief := sortedKeys(s.do("GET", oneNode+"/bios", "1.40", "").want(200).json()["bios"].([]any)[0].(map[string]any))
	if diff := cmp.Diff([]string{"created_at", "links", "name", "updated_at", "value"}, brief); diff != "" {
		t.Errorf("brief (-want +got):\n%s", diff)
	}
	one := s.do("GET", oneNode+"/bios/Delay", "1.74", "").want(200).json()["Delay"].(map[string]any)
	if one["lower_bound"] != 1.0 || one["allowable_values"] != nil || one["attribute_type"] != "Integer" {
		t.Errorf("setting %v", one)
	}
	if old := s.do("GET", oneNode+"/bios/Delay", "1.73", "").want(200).json()["Delay"].(map[string]any); len(old) != 5 {
		t.Errorf("setting of 1.73: %v", old)
	}
	picked := s.do("GET", oneNode+"/bios?fields=name,unique", "1.74", "").want(200).json()["bios"].([]any)[0].(map[string]any)
	if diff := cmp.Diff([]string{"name", "unique"}, sortedKeys(picked)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	s.do("GET", oneNode+"/bios?fields=name", "1.73", "").want(406)
	s.do("GET", oneNode+"/bios?detail=true", "1.73", "").want(406)
	s.do("GET", oneNode+"/bios?detail=true&fields=name", "1.74", "").want(400)
	s.get(oneNode + "/bios/Other").want(404)
}

func TestFirmwareComponentsAreListed(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	if got := s.do("GET", oneNode+"/firmware", "1.86", "").want(200); got.body != `{"firmware":[]}` {
		t.Errorf("got %s", got.body)
	}
	s.engine.machine.hardware.Firmware = []node.FirmwareComponent{{Component: "bmc", InitialVersion: "1", CurrentVersion: "2", CreatedAt: testTime}}
	row := s.get(oneNode + "/firmware").want(200).json()["firmware"].([]any)[0].(map[string]any)
	if row["component"] != "bmc" || row["current_version"] != "2" || row["last_version_flashed"] != nil || row["updated_at"] != nil {
		t.Errorf("component %v", row)
	}
	picked := s.get(oneNode + "/firmware?fields=component,current_version").want(200).json()["firmware"].([]any)[0]
	diffJSON(t, "fields", map[string]any{"component": "bmc", "current_version": "2"}, picked)
	s.get(oneNode + "/firmware?detail=true").want(200)
	s.get(oneNode + "/firmware?detail=true&fields=component").want(400)
}

func TestMediaShowNoCredentials(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.machine.media = []node.Medium{{DeviceType: "cdrom", ImageURL: "https://u:hush@images/a.iso"}}
	got := s.do("GET", oneNode+"/vmedia", "1.93", "").want(200)
	if strings.Contains(got.body, "hush") || !strings.Contains(got.body, `"image":"https://******@images/a.iso","inserted":true`) {
		t.Errorf("got %s", got.body)
	}
}

func TestServiceAndUnholdRequests(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) { n.ProvisionState = node.Active })
	put := func(version, body string) reply { return s.do("PUT", oneNode+"/states/provision", version, body) }
	const steps = `"service_steps":[{"interface":"deploy","step":"reboot"}]`
	put("1.86", `{"target":"service",`+steps+`}`).want(406)
	put("1.87", `{"target":"service",`+steps+`}`).want(202)
	put("1.107", `{"target":"service","disable_ramdisk":true,`+steps+`}`).want(406)
	put("1.108", `{"target":"service","disable_ramdisk":true,`+steps+`}`).want(202)
	put("1.91", `{"target":"service","runbook":"CUSTOM_X"}`).want(406)
	put("1.92", `{"target":"service","runbook":"CUSTOM_X"}`).want(202)
	put("1.92", `{"target":"service","runbook":"CUSTOM_X",`+steps+`}`).want(400)
	n.ProvisionState = node.ServiceHold
	put("1.84", `{"target":"unhold"}`).want(406)
	put("1.85", `{"target":"unhold"}`).want(202)
}

func TestHistoryPagesAndCutsLongTexts(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	s.engine.machine.events = []*node.Event{
		{UUID: uuid2, Severity: node.SeverityError, Type: "clean", Message: strings.Repeat("é", 300), Conductor: "ingot-1", CreatedAt: testTime},
		{UUID: uuid3, Severity: node.SeverityInfo, Type: "agent", Message: "Hello.", CreatedAt: testTime},
	}
	got := s.get(oneNode + "/history?limit=1").want(200).json()
	row := got["history"].([]any)[0].(map[string]any)
	if len([]rune(row["event"].(string))) != 255 || row["event_type"] != nil || !strings.Contains(fmt.Sprint(got["next"]), "marker="+uuid2) {
		t.Errorf("page %v", got)
	}
	detail := s.get(oneNode + "/history?detail=true&marker=" + uuid2).want(200).json()["history"].([]any)
	if len(detail) != 1 || detail[0].(map[string]any)["event_type"] != "agent" {
		t.Errorf("page %v", detail)
	}
	one := s.get(oneNode + "/history/" + uuid2).want(200).json()
	if len([]rune(one["event"].(string))) != 300 || one["conductor"] != "ingot-1" || one["user"] != nil {
		t.Errorf("event %v", one)
	}
	long := s.get(oneNode + "/history/detail?limit=1").want(200).json()
	if row := long["history"].([]any)[0].(map[string]any); row["event_type"] != "clean" || !strings.Contains(fmt.Sprint(long["next"]), "/history/detail?") {
		t.Errorf("page with detail %v", long)
	}
	s.get(oneNode + "/history/" + uuid1).want(404)
	s.get(oneNode + "/history?marker=x").want(400)
}

func TestVendorAnswers(t *testing.T) {
	s := newServer(t)
	s.addNode(uuid1)
	if got := s.get(oneNode + "/vendor_passthru/methods").want(200).json()["sing"].(map[string]any); got["async"] != true {
		t.Errorf("methods %v", got)
	}
	s.engine.machine.answer = []byte(`{"Id":"7"}`)
	if got := s.do("POST", oneNode+"/vendor_passthru/sing", "latest", `{}`).want(200); got.body != `{"Id":"7"}` {
		t.Errorf("answer %q", got.body)
	}
	s.engine.machine.async = true
	s.do("POST", oneNode+"/vendor_passthru/sing", "latest", `{}`).want(202)
	if got := s.get("/v1/drivers/fake-hardware/vendor_passthru/methods").want(200).json()["whistle"].(map[string]any); got["description"] != "Whistles." {
		t.Errorf("methods %v", got)
	}
	if got := s.get("/v1/drivers/manual-management/vendor_passthru/methods").want(200); got.body != "{}" {
		t.Errorf("methods %q", got.body)
	}
	for _, path := range []string{"?method=whistle", "/whistle"} {
		got := s.do("POST", "/v1/drivers/fake-hardware/vendor_passthru"+path, "latest", `{"loud":true}`).want(200)
		asked := s.engine.machine.asked
		if got.body != `{"Id":"7"}` || asked[len(asked)-1] != `driver fake-hardware: POST whistle {"loud":true}` {
			t.Errorf("answer %q to %q", got.body, asked)
		}
	}
	s.get("/v1/drivers/nobody/vendor_passthru/methods").want(404)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/vendor_passthru?method=sing", "/vendor_passthru/sing"} {
			if got := s.do(method, "/v1/drivers/fake-hardware"+path, "latest", "").want(400); !strings.Contains(got.body, "sing") {
				t.Errorf("%s %s: got %s, want it to name the method", method, path, got.body)
			}
		}
	}
}

func TestProvisionRequestsReachTheEngineWithAllKeys(t *testing.T) {
	s := newServer(t, func(o *Options) { o.User = func(context.Context) string { return "ann" } })
	n := s.addNode(uuid1, func(n *node.Node) { n.ProvisionState = node.Manageable })
	put := func(body string) reply { return s.do("PUT", oneNode+"/states/provision", "latest", body) }
	put(`{"target":"clean","clean_steps":[{"interface":"raid","step":"create_configuration","args":{"a":1},"order":2}],"disable_ramdisk":true}`).want(202)
	n.ProvisionState = node.Available
	put(`{"target":"active","configdrive":{"meta_data":{}},"deploy_steps":[{"interface":"deploy","step":"x","args":{},"priority":7}]}`).want(202)
	n.ProvisionState = node.Active
	put(`{"target":"rescue","rescue_password":"hush"}`).want(202)
	r := s.engine.requests
	if !r[0].DisableRamdisk || r[0].Steps[0].Name() != "raid.create_configuration" || *r[0].Steps[0].Order != 2 ||
		string(r[1].ConfigDrive) != `{"meta_data":{}}` || r[1].Steps[0].Priority != 7 || r[2].RescuePassword != "hush" || r[2].User != "ann" {
		t.Errorf("requests %+v", r)
	}
	n.ProvisionState = node.Manageable
	put(`{"target":"clean","clean_steps":[{"interface":"bios","step":"x","execute_on_child_nodes":true,"limit_child_node_execution":["blade1"]}]}`).want(202)
	if step := s.engine.requests[3].Steps[0]; !step.ExecuteOnChildNodes || !slices.Equal(step.LimitChildNodeExecution, []string{"blade1"}) {
		t.Errorf("step %+v, want it for child nodes", step)
	}
	for body, text := range map[string]string{
		`{"target":"clean","clean_steps":[{"interface":"bios","step":"x","execute_on_child_nodes":"maybe"}]}`:                       "true or false for execute_on_child_nodes",
		`{"target":"clean","clean_steps":[{"interface":"bios","step":"x","limit_child_node_execution":["a"]}]}`:                     "set execute_on_child_nodes",
		`{"target":"active","deploy_steps":[{"interface":"bios","step":"x","args":{},"priority":1,"execute_on_child_nodes":true}]}`: "unknown key",
		`{"target":"clean"}`:                                                                          "needs clean_steps",
		`{"target":"clean","clean_steps":{}}`:                                                         "want a list",
		`{"target":"clean","clean_steps":[{"step":"x"}]}`:                                             `lacks the key "interface"`,
		`{"target":"clean","clean_steps":[{"interface":"boot","step":"x"}]}`:                          `"boot"`,
		`{"target":"clean","clean_steps":[{"interface":"raid","step":"x","priority":1}]}`:             `"priority"`,
		`{"target":"clean","clean_steps":[{"interface":"raid","step":"wait","args":{"seconds":31}}]}`: "from 0 to 30",
		`{"target":"active","deploy_steps":[{"interface":"deploy","step":"x","priority":1}]}`:         `"args"`,
		`{"target":"active","configdrive":5}`:                                                         "want a text or an object",
		`{"target":"active","configdrive":{"users":[]}}`:                                              `"users"`,
		`{"target":"rescue"}`:                                                                         "rescue_password",
		`{"target":"manage","clean_steps":[]}`:                                                        "cannot be used with",
	} {
		if got := fmt.Sprint(put(body).want(400).fault()["faultstring"]); !strings.Contains(got, text) {
			t.Errorf("%s: fault %q, want it about %q", body, got, text)
		}
	}
}

func TestAbortIsPossibleInTheStatesOfItsVersion(t *testing.T) {
	s := newServer(t)
	n := s.addNode(uuid1, func(n *node.Node) { n.ProvisionState = node.InspectWait })
	abort := func(version string) reply {
		return s.do("PUT", oneNode+"/states/provision", version, `{"target":"abort"}`)
	}
	abort("1.40").want(406)
	abort("1.41").want(202)
	n.ProvisionState = node.DeployWait
	abort("1.109").want(400)
	abort("1.110").want(202)
}

// TestEveryDriverWithRAIDDescribesLogicalDisks asks drivers with and without an
// implementation.
func TestEveryDriverWithRAIDDescribesLogicalDisks(t *testing.T) {
	for name, options := range map[string]struct {
		raid   []string
		status int
	}{"with RAID": {nil, 200}, "without": {[]string{"no-raid"}, 404}} {
		t.Run(name, func(t *testing.T) {
			drivers, err := builtin.New(driver.Config{
				EnabledHardwareTypes: []string{"fake-hardware", "ipmi", "manual-management", "redfish"},
				EnabledInterfaces:    map[node.InterfaceKind][]string{node.RAIDInterface: options.raid},
			}, builtin.Dependencies{})
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t, func(o *Options) { o.Drivers = drivers })
			for _, name := range drivers.Names() {
				got := s.get("/v1/drivers/" + name + "/raid/logical_disk_properties").want(options.status)
				if options.status == 200 && got.json()["raid_level"] == nil {
					t.Errorf("%s: properties %s", name, got.body)
				}
			}
		})
	}
	newServer(t).get("/v1/drivers/nobody/raid/logical_disk_properties").want(404)
}
