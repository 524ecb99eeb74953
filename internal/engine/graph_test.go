package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// TestWholeGraphOverTheAPI walks fake hardware through every verb that the
// advertised versions have.
func TestWholeGraphOverTheAPI(t *testing.T) {
	r := start(t, func(cfg *engine.Config) { cfg.Conductor.AutomatedClean = true })
	ident := r.create(t, `{"driver":"fake-hardware"}`)
	const rescue = `,"rescue_password":"hush"`
	for _, move := range []struct{ verb, with, want string }{
		{"manage", "", "manageable"},
		{"inspect", "", "manageable"},
		{"clean", `,"clean_steps":[{"interface":"raid","step":"create_configuration"},{"interface":"power","step":"reboot"}]`, "manageable"},
		{"provide", "", "available"},
		{"active", `,"configdrive":{"meta_data":{"uuid":"x"}}`, "active"},
		{"service", `,"service_steps":[{"interface":"bios","step":"factory_reset"},{"interface":"deploy","step":"reboot"}]`, "active"},
		{"rescue", rescue, "rescue"},
		{"unrescue", "", "active"},
		{"rebuild", "", "active"},
		{"undeploy", "", "available"},
		{"deploy", "", "active"},
		{"rescue", rescue, "rescue"},
		{"deleted", "", "available"},
		{"manage", "", "manageable"},
		{"adopt", "", "active"},
		{"deleted", "", "available"},
	} {
		r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", fmt.Sprintf(`{"target":%q%s}`, move.verb, move.with)).want(t, 202)
		n := r.awaitNode(t, ident, func(n map[string]any) bool { return n["target_provision_state"] == nil && n["reservation"] == nil })
		if n["provision_state"] != move.want || n["last_error"] != nil {
			t.Fatalf("after %s: %v, last_error %v", move.verb, n["provision_state"], n["last_error"])
		}
	}
	if text := r.seen.String(); strings.Contains(text, "hush") {
		t.Error("the rescue password was shown")
	}
}

func TestHeldServiceGoesOnOverTheAPI(t *testing.T) {
	r := start(t, nil)
	ident := r.create(t, `{"driver":"fake-hardware"}`)
	provision := func(body string) {
		t.Helper()
		r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", body).want(t, 202)
	}
	provision(`{"target":"manage"}`)
	r.awaitNode(t, ident, inState("manageable"))
	provision(`{"target":"adopt"}`)
	r.awaitNode(t, ident, inState("active"))
	const held = `{"target":"service","service_steps":[{"interface":"deploy","step":"hold"},{"interface":"deploy","step":"reboot"}]}`
	for _, verb := range []string{"unhold", "abort"} {
		provision(held)
		r.awaitNode(t, ident, func(n map[string]any) bool { return n["provision_state"] == "service hold" && n["reservation"] == nil })
		provision(fmt.Sprintf(`{"target":%q}`, verb))
		n := r.awaitNode(t, ident, inState("active"))
		if text, _ := n["last_error"].(string); strings.Contains(text, "aborted") != (verb == "abort") {
			t.Errorf("after %s: last_error %q", verb, text)
		}
	}
}

func TestOfEqualVerbsAtOnceOneIsAccepted(t *testing.T) {
	r := start(t, nil)
	ident := r.create(t, `{"driver":"fake-hardware","driver_info":{"fake_verify_delay":1}}`)
	var mu sync.Mutex
	statuses := map[int]int{}
	var requests sync.WaitGroup
	for range 16 {
		requests.Go(func() {
			got := r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"manage"}`)
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
		})
	}
	requests.Wait()
	if statuses[202] != 1 || statuses[409] != 15 {
		t.Errorf("answers by status: %v, want one 202 and 409 for the rest", statuses)
	}
	r.awaitNode(t, ident, inState("manageable"))
}

func TestMachineBehindANodeOverTheAPI(t *testing.T) {
	r := start(t, nil)
	ident := r.create(t, `{"driver":"fake-hardware"}`)
	item := "/v1/nodes/" + ident
	r.do(t, "PUT", item+"/states/provision", `{"target":"manage"}`).want(t, 202)
	r.awaitNode(t, ident, inState("manageable"))
	r.do(t, "PUT", item+"/states/power", `{"target":"power on"}`).want(t, 202)
	r.awaitNode(t, ident, func(n map[string]any) bool { return n["power_state"] == "power on" && n["target_power_state"] == nil })
	r.do(t, "PUT", item+"/management/boot_device", `{"boot_device":"disk","persistent":true}`).want(t, 204)
	if got := r.do(t, "GET", item+"/management/boot_device", "").want(t, 200).object(t); got["boot_device"] != "disk" || got["persistent"] != true {
		t.Errorf("boot device %v", got)
	}
	if got := r.do(t, "GET", item+"/bios", "").want(t, 200).object(t); len(got["bios"].([]any)) == 0 {
		t.Errorf("bios %v", got)
	}
	for kind, result := range r.do(t, "GET", item+"/validate", "").want(t, 200).object(t) {
		if result.(map[string]any)["result"] != true {
			t.Errorf("validate %s: %v", kind, result)
		}
	}
	r.do(t, "PUT", item+"/states/raid", `{"logical_disks":[]}`).want(t, 204)
	r.do(t, "POST", item+"/vendor_passthru?method=third_method_sync", `{"bar":"meow"}`).want(t, 200)
	r.do(t, "POST", item+"/vmedia", `{"device_type":"cdrom","image_url":"http://images.example/a.iso"}`).want(t, 204)
	eventually(t, "the medium to be there", func() bool {
		return strings.Contains(r.do(t, "GET", item+"/vmedia", "").want(t, 200).body, "a.iso")
	})
	if got := r.do(t, "GET", item+"/firmware", "").want(t, 200).object(t); len(got["firmware"].([]any)) == 0 {
		t.Errorf("firmware %v", got)
	}
	r.awaitNode(t, ident, func(n map[string]any) bool { return n["reservation"] == nil })
	r.do(t, "PUT", item+"/states/boot_mode", `{"target":"bios"}`).want(t, 202)
	r.awaitNode(t, ident, func(n map[string]any) bool { return n["boot_mode"] == "bios" })
}

// TestValidationSaysWhatADeploymentLacks looks at nodes with and without an instance, and has one
// without be made available.
func TestValidationSaysWhatADeploymentLacks(t *testing.T) {
	r := start(t, nil)
	for name, tc := range map[string]struct {
		driver   string
		deploy   string // its interface
		instance string // instance_info
		reason   string // empty means that it can be deployed
	}{
		"no image":                {"fake-hardware", "direct", `{}`, "image_source"},
		"no checksum":             {"fake-hardware", "direct", `{"image_source": "http://192.0.2.1/i"}`, "no checksum"},
		"an image":                {"fake-hardware", "direct", `{"image_source": "http://192.0.2.1/i", "image_checksum": "` + strings.Repeat("0a", 32) + `"}`, ""},
		"what its steps install":  {"fake-hardware", "custom-agent", `{}`, ""},
		"an image to boot":        {"manual-management", "ramdisk", `{"boot_iso": "http://192.0.2.1/i"}`, "boot.listen"},
		"a config drive of noise": {"fake-hardware", "custom-agent", `{"configdrive": "noise"}`, "config drive"},
	} {
		ident := r.create(t, `{"driver":"`+tc.driver+`","deploy_interface":"`+tc.deploy+`","automated_clean":false,"instance_info":`+tc.instance+`}`)
		got := r.do(t, "GET", "/v1/nodes/"+ident+"/validate", "").want(t, 200).object(t)["deploy"].(map[string]any)
		reason, _ := got["reason"].(string)
		if got["result"] != (tc.reason == "") || !strings.Contains(reason, tc.reason) {
			t.Errorf("%s: %v, want the reason %q", name, got, tc.reason)
		}
		if name == "no image" {
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"manage"}`).want(t, 202)
			r.awaitNode(t, ident, inState("manageable"))
			r.do(t, "PUT", "/v1/nodes/"+ident+"/states/provision", `{"target":"provide"}`).want(t, 202)
			r.awaitNode(t, ident, inState("available"))
		}
	}
}
