package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// stateNodes is an engine with one node in each state that matters to refusals, which
// is the node's name.
type stateNodes struct {
	*running
	uuid map[string]string // by name
}

// move asks for a verb and waits for a state.
func (f *stateNodes) move(t *testing.T, name, verb, more, state string) {
	t.Helper()
	f.do(t, "PUT", "/v1/nodes/"+name+"/states/provision", fmt.Sprintf(`{"target":%q%s}`, verb, more)).want(t, 202)
	f.awaitNode(t, name, func(n map[string]any) bool { return n["provision_state"] == state && n["reservation"] == nil })
}

// change patches a node.
func (f *stateNodes) change(t *testing.T, name, patch string) {
	t.Helper()
	f.do(t, "PATCH", "/v1/nodes/"+name, patch).want(t, 200)
}

// startStateNodes enrols the nodes and moves them into their states.
func startStateNodes(t *testing.T) *stateNodes {
	t.Helper()
	f := &stateNodes{running: start(t, func(cfg *engine.Config) { cfg.Conductor.LockWait = 0 }), uuid: map[string]string{}}
	const steps = `,"clean_steps":[{"interface":"deploy","step":"erase_devices"}]`
	for _, n := range []struct {
		name, info string
		verbs      [][3]string // verb, more of its body, state it ends in
	}{
		{"new", "", nil},
		{"managed", "", [][3]string{{"manage", "", "manageable"}}},
		{"retired", "", [][3]string{{"manage", "", "manageable"}}},
		{"instance", "", [][3]string{{"manage", "", "manageable"}}},
		{"ready", "", [][3]string{{"manage", "", "manageable"}, {"provide", "", "available"}}},
		{"away", "", [][3]string{{"manage", "", "manageable"}, {"provide", "", "available"}}},
		{"away-managed", "", [][3]string{{"manage", "", "manageable"}}},
		{"away-running", "", [][3]string{{"manage", "", "manageable"}, {"adopt", "", "active"}}},
		{"running", "", [][3]string{{"manage", "", "manageable"}, {"adopt", "", "active"}}},
		{"protected", "", [][3]string{{"manage", "", "manageable"}, {"adopt", "", "active"}}},
		{"always-on", "", [][3]string{{"manage", "", "manageable"}}},
		{"waiting", `"fake_clean_wait":3600`, [][3]string{{"manage", "", "manageable"}, {"clean", steps, "clean wait"}}},
		{"busy", `"fake_power_delay":3600`, [][3]string{{"manage", "", "manageable"}}},
		{"cleaned", `"fake_clean_delay":3600`, [][3]string{{"manage", "", "manageable"}}},
	} {
		f.uuid[n.name] = f.create(t, fmt.Sprintf(`{"driver":"fake-hardware","name":%q,"driver_info":{%s}}`, n.name, n.info))
		for _, verb := range n.verbs {
			f.move(t, n.name, verb[0], verb[1], verb[2])
		}
	}
	f.uuid["manual"] = f.create(t, `{"driver":"manual-management","name":"manual"}`)
	f.uuid["bmc"] = f.create(t, `{"driver":"ipmi","name":"bmc","raid_interface":"no-raid"}`)
	f.do(t, "PUT", "/v1/nodes/busy/states/power", `{"target":"power on","timeout":3600}`).want(t, 202)
	f.awaitNode(t, "busy", func(n map[string]any) bool { return n["target_power_state"] != nil && n["reservation"] != nil })
	f.do(t, "PUT", "/v1/nodes/cleaned/states/provision", `{"target":"clean"`+steps+`}`).want(t, 202)
	// Its work waits for long, and leaves the node to others.
	f.awaitNode(t, "cleaned", func(n map[string]any) bool {
		step, _ := n["clean_step"].(map[string]any)
		return n["provision_state"] == "cleaning" && n["reservation"] == nil && len(step) > 0
	})
	f.change(t, "protected", `[{"op":"add","path":"/protected","value":true}]`)
	f.change(t, "retired", `[{"op":"add","path":"/retired","value":true}]`)
	f.change(t, "always-on", `[{"op":"add","path":"/disable_power_off","value":true}]`)
	f.change(t, "instance", `[{"op":"add","path":"/instance_uuid","value":"`+nobody+`"},{"op":"add","path":"/resource_class","value":"gold"}]`)
	f.change(t, "running", `[{"op":"add","path":"/resource_class","value":"gold"}]`)
	for _, name := range []string{"away", "away-managed", "away-running"} {
		f.do(t, "PUT", "/v1/nodes/"+name+"/maintenance", `{}`).want(t, 202)
	}
	return f
}

// TestRefusalsByState holds requests that are good in themselves to what the state
// of their node permits.
func TestRefusalsByState(t *testing.T) {
	t.Parallel()
	f := startStateNodes(t)
	port, _ := f.do(t, "POST", "/v1/ports", `{"node_uuid":"`+f.uuid["running"]+`","address":"52:54:00:00:00:0a"}`).want(t, 201).object(t)["uuid"].(string)
	busyPort, _ := f.do(t, "POST", "/v1/ports", `{"node_uuid":"`+f.uuid["busy"]+`","address":"52:54:00:00:00:0b"}`).want(t, 201).object(t)["uuid"].(string)
	add := func(path, value string) string {
		return fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}]`, path, value)
	}
	verb := func(name string) string { return `{"target":"` + name + `"}` }
	const locked = "is locked by host engine-under-test, please retry after the current operation is completed."
	const steps = `[{"interface":"deploy","step":"erase_devices"}]`
	for _, test := range []struct {
		name, method, path, body string // the path is below /v1/nodes/ unless it begins with a slash
		status                   int
		text                     string
	}{
		{"patch under work", "PATCH", "busy", add("/description", `"x"`), 409, locked},
		{"delete under work", "DELETE", "busy", "", 409, locked},
		{"verb under work", "PUT", "busy/states/provision", verb("manage"), 409, locked},
		{"verb under work that fits no state", "PUT", "busy/states/provision", verb("rescue"), 400, "rescue_password"},
		{"power under work", "PUT", "busy/states/power", verb("power on"), 409, locked},
		{"maintenance under work", "PUT", "busy/maintenance", `{}`, 409, locked},
		{"end of maintenance under work", "DELETE", "busy/maintenance", "", 409, locked},
		{"boot device under work", "PUT", "busy/management/boot_device", `{"boot_device":"pxe"}`, 409, locked},
		{"traits under work", "PUT", "busy/traits", `{"traits":["CUSTOM_A"]}`, 409, locked},
		{"one trait under work", "PUT", "busy/traits/CUSTOM_A", "", 409, locked},
		{"RAID target under work", "PUT", "busy/states/raid", `{"logical_disks":[]}`, 409, locked},
		{"port under work", "PATCH", "/v1/ports/" + busyPort, add("/extra/a", "1"), 409, locked},
		{"port deleted under work", "DELETE", "/v1/ports/" + busyPort, "", 409, locked},

		{"deletion while it is cleaned", "DELETE", "cleaned", "", 409, locked},
		{"verb while it is cleaned", "PUT", "cleaned/states/provision", verb("manage"), 409, locked},
		{"power while it is cleaned", "PUT", "cleaned/states/power", verb("power on"), 400, "cleaning"},
		{"boot device while it is cleaned", "PUT", "cleaned/management/boot_device", `{"boot_device":"pxe"}`, 409, locked},
		{"boot mode while it is cleaned", "PUT", "cleaned/states/boot_mode", verb("uefi"), 409, locked},
		{"media while it is cleaned", "POST", "cleaned/vmedia", `{"device_type":"cdrom","image_url":"http://a/b"}`, 409, locked},

		{"patch while it waits", "PATCH", "waiting", add("/description", `"x"`), 409, "clean wait"},
		{"power while it waits", "PUT", "waiting/states/power", verb("power on"), 400, "clean wait"},
		{"verb while it waits", "PUT", "waiting/states/provision", verb("manage"), 400, `"manage" can not be performed`},
		{"deletion while it waits", "DELETE", "waiting", "", 409, "clean wait"},
		{"boot mode while it waits", "PUT", "waiting/states/boot_mode", verb("uefi"), 409, "clean wait"},
		{"secure boot while it waits", "PUT", "waiting/states/secure_boot", `{"target":true}`, 409, "clean wait"},

		{"deploy in maintenance", "PUT", "away/states/provision", verb("active"), 400, "maintenance"},
		{"clean in maintenance", "PUT", "away-managed/states/provision", `{"target":"clean","clean_steps":` + steps + `}`, 400, "maintenance"},
		{"rebuild in maintenance", "PUT", "away-running/states/provision", verb("rebuild"), 400, "maintenance"},
		{"service in maintenance", "PUT", "away-running/states/provision", `{"target":"service","service_steps":` + steps + `}`, 400, "maintenance"},
		{"rescue in maintenance", "PUT", "away-running/states/provision", `{"target":"rescue","rescue_password":"x"}`, 400, "maintenance"},
		{"chassis of a running node that does not exist", "PATCH", "running", add("/chassis_uuid", `"`+nobody+`"`), 400, nobody},
		{"clean of a node that is enrolled", "PUT", "new/states/provision", `{"target":"clean","clean_steps":` + steps + `}`, 400, `"clean" can not be performed`},
		{"provide of a retired node", "PUT", "retired/states/provision", verb("provide"), 400, "retired"},
		{"deletion of a running node", "DELETE", "running", "", 409, "active"},
		{"deletion of a protected node", "DELETE", "protected", "", 403, "protected"},
		{"undeploy of a protected node", "PUT", "protected/states/provision", verb("deleted"), 403, "protected"},
		{"rebuild of a protected node", "PUT", "protected/states/provision", verb("rebuild"), 403, "protected"},
		{"deletion with an instance", "DELETE", "instance", "", 409, nobody},
		{"instance of another node", "PATCH", "managed", add("/instance_uuid", `"`+nobody+`"`), 409, nobody},
		{"another instance", "PATCH", "instance", add("/instance_uuid", `"`+f.uuid["new"]+`"`), 409, "instance"},
		{"name of another node", "PATCH", "managed", add("/name", `"ready"`), 409, "ready"},
		{"protection of a node without an instance", "PATCH", "managed", add("/protected", "true"), 409, "protected"},
		{"reason of no protection", "PATCH", "running", add("/protected_reason", `"x"`), 400, "protected"},
		{"retirement of an available node", "PATCH", "ready", add("/retired", "true"), 409, "retired"},
		{"driver of a running node", "PATCH", "running", add("/driver", `"ipmi"`), 409, "driver"},
		{"interface of a running node", "PATCH", "running", add("/raid_interface", `"no-raid"`), 409, "raid_interface"},
		{"resource class of a running node", "PATCH", "running", add("/resource_class", `"lead"`), 409, "resource_class"},
		{"driver that its interfaces do not fit", "PATCH", "managed", add("/driver", `"ipmi"`), 400, "interface"},
		{"node as its own parent", "PATCH", "managed", add("/parent_node", `"`+f.uuid["managed"]+`"`), 400, "parent"},
		{"parent that does not exist", "PATCH", "managed", add("/parent_node", `"`+nobody+`"`), 400, nobody},
		{"chassis that does not exist", "PATCH", "managed", add("/chassis_uuid", `"`+nobody+`"`), 400, nobody},

		{"power off of a node that stays on", "PUT", "always-on/states/power", verb("power off"), 409, "disable_power_off"},
		{"soft power off of a node that stays on", "PUT", "always-on/states/power", verb("soft power off"), 409, "disable_power_off"},
		{"unknown power state", "PUT", "managed/states/power", verb("sleep"), 400, "sleep"},
		{"power state of the wrong type", "PUT", "managed/states/power", `{"target":1}`, 400, "target"},
		{"no power state", "PUT", "managed/states/power", `{}`, 400, "the known targets are power on, power off, rebooting, soft power off, soft rebooting."},
		{"no time for a power change", "PUT", "managed/states/power", `{"target":"power on","timeout":0}`, 400, "timeout"},
		{"power without a BMC", "PUT", "manual/states/power", verb("power on"), 400, "does not support"},
		{"unknown boot device", "PUT", "managed/management/boot_device", `{"boot_device":"tape"}`, 400, "tape"},
		{"no boot device", "PUT", "managed/management/boot_device", `{}`, 400, "boot_device"},
		{"boot device the hardware has not", "PUT", "managed/management/boot_device", `{"boot_device":"wanboot"}`, 400, "wanboot"},
		{"unknown boot mode", "PUT", "managed/states/boot_mode", verb("fast"), 400, "fast"},
		{"secure boot a word", "PUT", "managed/states/secure_boot", verb("perhaps"), 400, "perhaps"},
		{"RAID the hardware has not", "PUT", "bmc/states/raid", `{"logical_disks":[]}`, 404, "RAID of node"},
		{"RAID of a wrong level", "PUT", "managed/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"7"}]}`, 400, "raid_level"},
		{"RAID without a size", "PUT", "managed/states/raid", `{"logical_disks":[{"raid_level":"1"}]}`, 400, "size_gb"},
		{"RAID with two roots", "PUT", "managed/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"1","is_root_volume":true},{"size_gb":1,"raid_level":"1","is_root_volume":true}]}`, 400, "root"},
		{"RAID with an unknown key", "PUT", "managed/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"1","colour":"red"}]}`, 400, "colour"},
		{"BIOS setting that is absent", "GET", "managed/bios/Nothing", "", 404, "Nothing"},
		{"inventory that is absent", "GET", "managed/inventory", "", 404, "nventory"},
		{"history that is absent", "GET", "managed/history/" + nobody, "", 404, nobody},
		{"medium of an unknown kind", "POST", "managed/vmedia", `{"device_type":"tape","image_url":"http://h/a"}`, 400, "tape"},
		{"medium from an unknown place", "POST", "managed/vmedia", `{"device_type":"cdrom","image_url":"ftp://h/a"}`, 400, "image_url"},
		{"medium from nowhere", "POST", "managed/vmedia", `{"device_type":"cdrom"}`, 400, "image_url"},
		{"media the hardware has not", "GET", "manual/vmedia", "", 400, "does not support"},
		{"interrupt the hardware has not", "PUT", "manual/management/inject_nmi", `{}`, 400, "does not support interrupts"},
		{"vendor method that is unknown", "POST", "managed/vendor_passthru?method=none", `{}`, 400, "none"},
		{"trait of the wrong form", "PUT", "managed/traits/blue", "", 400, "blue"},
		{"traits that are too many", "PUT", "managed/traits", `{"traits":[` + manyTraits(51) + `]}`, 400, "50"},
		{"trait that the node has not", "DELETE", "managed/traits/CUSTOM_NONE", "", 404, "CUSTOM_NONE"},

		{"clean without steps", "PUT", "managed/states/provision", verb("clean"), 400, "clean_steps"},
		{"clean with an empty step", "PUT", "managed/states/provision", `{"target":"clean","clean_steps":[{}]}`, 400, "interface"},
		{"clean with an unknown interface", "PUT", "managed/states/provision", `{"target":"clean","clean_steps":[{"interface":"toaster","step":"x"}]}`, 400, "toaster"},
		{"clean with an unknown key", "PUT", "managed/states/provision", `{"target":"clean","clean_steps":[{"interface":"deploy","step":"x","colour":"red"}]}`, 400, "colour"},
		{"clean with steps and a runbook", "PUT", "managed/states/provision", `{"target":"clean","runbook":"CUSTOM_A","clean_steps":` + steps + `}`, 400, "runbook"},
		{"clean with a runbook that does not exist", "PUT", "managed/states/provision", `{"target":"clean","runbook":"CUSTOM_NONE"}`, 400, "CUSTOM_NONE"},
		{"deploy with half a step", "PUT", "ready/states/provision", `{"target":"active","deploy_steps":[{"interface":"deploy","step":"x"}]}`, 400, "args"},
		{"service without steps", "PUT", "running/states/provision", verb("service"), 400, "service_steps"},
		{"rescue without a password", "PUT", "running/states/provision", verb("rescue"), 400, "rescue_password"},
		{"rescue with an empty password", "PUT", "running/states/provision", `{"target":"rescue","rescue_password":""}`, 400, "rescue_password"},
		{"steps of another verb", "PUT", "running/states/provision", `{"target":"deleted","clean_steps":` + steps + `}`, 400, "clean_steps"},
		{"config drive of another verb", "PUT", "managed/states/provision", `{"target":"provide","configdrive":{}}`, 400, "configdrive"},
		{"config drive of the wrong type", "PUT", "ready/states/provision", `{"target":"active","configdrive":5}`, 400, "configdrive"},
		{"deploy of a node without an image", "PUT", "bmc/states/provision", verb("active"), 400, `"active" can not be performed`},
		{"abort of nothing", "PUT", "managed/states/provision", verb("abort"), 400, `"abort" can not be performed`},
		{"unhold of nothing", "PUT", "managed/states/provision", verb("unhold"), 400, `"unhold" can not be performed`},

		{"address of a running node's port", "PATCH", "/v1/ports/" + port, add("/address", `"52:54:00:00:00:0c"`), 409, "address"},
		{"network of a running node's port", "PATCH", "/v1/ports/" + port, add("/physical_network", `"a"`), 409, "physical_network"},
		{"PXE of a running node's port", "PATCH", "/v1/ports/" + port, add("/pxe_enabled", `false`), 409, "pxe_enabled"},
		{"link of a running node's port", "PATCH", "/v1/ports/" + port, add("/local_link_connection", `{"switch_id":"52:54:00:00:00:aa","port_id":"1"}`), 409, "local_link_connection"},
		{"ports by node and by group", "GET", "/v1/ports?node=running&portgroup=" + nobody, "", 403, "portgroup"},
		{"ports by node and by shard", "GET", "/v1/ports?node=running&shard=a", "", 403, "shard"},
		{"heartbeat of nobody", "POST", "/v1/heartbeat/" + nobody, `{"callback_url":"http://192.0.2.1:9999","agent_version":"9","agent_token":"x"}`, 400, ""},
		{"lookup of nobody", "GET", "/v1/lookup?addresses=52:54:00:00:00:ff", "", 404, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := test.path
			if !strings.HasPrefix(path, "/") {
				path = "/v1/nodes/" + path
			}
			f.refuse(t, f.rows(t), refusal{method: test.method, path: path, header: latest, body: test.body, status: test.status, text: test.text})
		})
	}
}

func manyTraits(count int) string {
	traits := make([]string, count)
	for i := range traits {
		traits[i] = fmt.Sprintf(`"CUSTOM_%d"`, i)
	}
	return strings.Join(traits, ",")
}
