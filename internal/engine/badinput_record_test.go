package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/engine"
)

// make creates a record and returns its UUID.
func (r *running) make(t *testing.T, path, body string) (uuid string) {
	t.Helper()
	uuid, _ = r.do(t, "POST", path, body).want(t, http.StatusCreated).object(t)["uuid"].(string)
	return uuid
}

// TestRefusalsOfRecords holds what is kept beside nodes to its rules.
func TestRefusalsOfRecords(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	node := e.create(t, `{"driver":"fake-hardware","name":"one"}`)
	other := e.create(t, `{"driver":"fake-hardware","name":"other","network_interface":"flat"}`)
	chassis := e.make(t, "/v1/chassis", `{"description":"rack"}`)
	e.create(t, `{"driver":"fake-hardware","chassis_uuid":"`+chassis+`"}`)
	group := e.make(t, "/v1/portgroups", `{"node_uuid":"`+node+`","name":"bond","address":"52:54:00:00:01:00"}`)
	closed := e.make(t, "/v1/portgroups", `{"node_uuid":"`+node+`","standalone_ports_supported":false}`)
	e.make(t, "/v1/ports", `{"node_uuid":"`+node+`","address":"52:54:00:00:01:01","portgroup_uuid":"`+group+`","physical_network":"left"}`)
	free := e.make(t, "/v1/ports", `{"node_uuid":"`+node+`","address":"52:54:00:00:01:02","name":"free"}`)
	e.make(t, "/v1/deploy_templates", `{"name":"CUSTOM_T","steps":[{"interface":"deploy","step":"x","args":{},"priority":5}]}`)
	e.make(t, "/v1/runbooks", `{"name":"CUSTOM_R","steps":[{"interface":"deploy","step":"x","args":{},"order":1}]}`)
	allocation := e.make(t, "/v1/allocations", `{"name":"taken","resource_class":"none"}`)
	e.make(t, "/v1/volume/targets", `{"node_uuid":"`+node+`","volume_type":"iscsi","volume_id":"v","boot_index":0}`)
	e.make(t, "/v1/volume/connectors", `{"node_uuid":"`+node+`","type":"iqn","connector_id":"c"}`)
	vifs := "/v1/nodes/" + other + "/vifs"
	e.do(t, "POST", vifs, `{"id":"early"}`).want(t, http.StatusBadRequest) // no port
	e.make(t, "/v1/ports", `{"node_uuid":"`+other+`","address":"52:54:00:00:01:03"}`)
	e.do(t, "POST", vifs, `{"id":"attached"}`).want(t, http.StatusNoContent)

	of := func(n, more string) string {
		return `{"node_uuid":"` + n + `","address":"52:54:00:00:01:09"` + more + `}`
	}
	type row struct {
		name, method, path, body string
		status                   int
		text                     string
	}
	tests := []row{
		{"port of a group of another node", "POST", "/v1/ports", of(other, `,"portgroup_uuid":"`+group+`"`), 400, "node"},
		{"port of a group that does not exist", "POST", "/v1/ports", of(node, `,"portgroup_uuid":"`+nobody+`"`), 400, nobody},
		{"port that boots in a group that keeps together", "POST", "/v1/ports", of(node, `,"pxe_enabled":true,"portgroup_uuid":"`+closed+`"`), 409, "does not support standalone ports"},
		{"port of another network than its group", "POST", "/v1/ports", of(node, `,"physical_network":"right","portgroup_uuid":"`+group+`"`), 409, "share one"},
		{"port of two nodes", "POST", "/v1/ports", of(node, `,"node_ident":"one"`), 400, "node_ident"},
		{"port of a node that does not exist", "POST", "/v1/ports", of(nobody, ""), 400, nobody},
		{"port with a name that is taken", "POST", "/v1/ports", of(node, `,"name":"free"`), 409, "free"},
		{"port on a network with a long name", "POST", "/v1/ports", of(node, `,"physical_network":"`+strings.Repeat("a", 65)+`"`), 400, "64"},
		{"port with an unknown network type", "POST", "/v1/ports", of(node, `,"local_link_connection":{"network_type":"odd"}`), 400, "network_type"},
		{"port with a switch that is none", "POST", "/v1/ports", of(node, `,"local_link_connection":{"switch_id":"left","port_id":"1"}`), 400, "switch_id"},
		{"port with internal data", "POST", "/v1/ports", of(node, `,"internal_info":{}`), 400, "read-only"},
		{"address that is taken", "PATCH", "/v1/ports/" + free, `[{"op":"replace","path":"/address","value":"52:54:00:00:01:01"}]`, 409, "52:54:00:00:01:01"},
		{"ports of a node that does not exist", "GET", "/v1/ports?node=nobody", "", 404, "nobody"},

		{"group with ports", "DELETE", "/v1/portgroups/" + group, "", 400, "ports"},
		{"group without a node", "POST", "/v1/portgroups", `{}`, 400, "node_uuid"},
		{"group with a name that is taken", "POST", "/v1/portgroups", `{"node_uuid":"` + node + `","name":"bond"}`, 409, "bond"},
		{"group with an address that is taken", "POST", "/v1/portgroups", `{"node_uuid":"` + node + `","address":"52:54:00:00:01:00"}`, 409, "52:54:00:00:01:00"},
		{"group with a bad address", "POST", "/v1/portgroups", `{"node_uuid":"` + node + `","address":"x"}`, 400, "MAC"},
		{"group that does not exist", "GET", "/v1/portgroups/nobody", "", 404, "nobody"},
		{"chassis with nodes", "DELETE", "/v1/chassis/" + chassis, "", 400, "nodes"},
		{"chassis with a long description", "POST", "/v1/chassis", `{"description":"` + strings.Repeat("a", 256) + `"}`, 400, "255"},
		{"chassis with an unknown key", "POST", "/v1/chassis", `{"colour":"red"}`, 400, "colour"},
		{"chassis that does not exist", "GET", "/v1/chassis/" + nobody, "", 404, nobody},
		{"node of a chassis that does not exist", "POST", "/v1/nodes", `{"driver":"fake-hardware","chassis_uuid":"` + nobody + `"}`, 400, nobody},
		{"node of a parent that does not exist", "POST", "/v1/nodes", `{"driver":"fake-hardware","parent_node":"` + nobody + `"}`, 400, nobody},
		{"node with a power state", "POST", "/v1/nodes", `{"driver":"fake-hardware","power_state":"power on"}`, 400, "read-only"},
		{"node with a long description", "POST", "/v1/nodes", `{"driver":"fake-hardware","description":"` + strings.Repeat("a", 4097) + `"}`, 400, "4096"},
		{"node with a long shard", "POST", "/v1/nodes", `{"driver":"fake-hardware","shard":"` + strings.Repeat("a", 256) + `"}`, 400, "255"},

		{"network twice", "POST", vifs, `{"id":"attached"}`, 409, "attached"},
		{"network without a free port", "POST", vifs, `{"id":"more"}`, 400, "port"},
		{"network that is not attached", "DELETE", vifs + "/none", "", 400, "none"},
		{"network without a name", "POST", vifs, `{}`, 400, "id"},

		{"allocation of no class", "POST", "/v1/allocations", `{"name":"a"}`, 400, "resource_class"},
		{"allocation with a name that is taken", "POST", "/v1/allocations", `{"name":"taken","resource_class":"a"}`, 409, "taken"},
		{"allocation with a candidate that does not exist", "POST", "/v1/allocations", `{"resource_class":"a","candidate_nodes":["nobody"]}`, 400, "nobody"},
		{"allocation with a bad trait", "POST", "/v1/allocations", `{"resource_class":"a","traits":["blue"]}`, 400, "blue"},
		{"allocation with a state", "POST", "/v1/allocations", `{"resource_class":"a","state":"active"}`, 400, "state"},
		{"allocation of another class", "PATCH", "/v1/allocations/" + allocation, `[{"op":"replace","path":"/resource_class","value":"b"}]`, 400, "resource_class"},
		{"allocation that does not exist", "DELETE", "/v1/allocations/nobody", "", 404, "nobody"},
		{"allocation that a node has not", "GET", "/v1/nodes/one/allocation", "", 404, node},

		{"template with a name that is no trait", "POST", "/v1/deploy_templates", `{"name":"blue","steps":[{"interface":"deploy","step":"x","args":{},"priority":5}]}`, 400, "blue"},
		{"template with a name that is taken", "POST", "/v1/deploy_templates", `{"name":"CUSTOM_T","steps":[{"interface":"deploy","step":"x","args":{},"priority":5}]}`, 409, "CUSTOM_T"},
		{"template without steps", "POST", "/v1/deploy_templates", `{"name":"CUSTOM_A","steps":[]}`, 400, "one step"},
		{"template with half a step", "POST", "/v1/deploy_templates", `{"name":"CUSTOM_A","steps":[{"interface":"deploy","step":"x"}]}`, 400, "args"},
		{"template that does not exist", "GET", "/v1/deploy_templates/CUSTOM_NONE", "", 404, "CUSTOM_NONE"},
		{"runbook with a name that is taken", "POST", "/v1/runbooks", `{"name":"CUSTOM_R","steps":[{"interface":"deploy","step":"x","args":{},"order":1}]}`, 409, "CUSTOM_R"},
		{"runbook without steps", "POST", "/v1/runbooks", `{"name":"CUSTOM_A","steps":[]}`, 400, "one step"},
		{"runbook that does not exist", "DELETE", "/v1/runbooks/CUSTOM_NONE", "", 404, "CUSTOM_NONE"},
		{"volume that boots second first", "POST", "/v1/volume/targets", `{"node_uuid":"` + node + `","volume_type":"iscsi","volume_id":"w","boot_index":0}`, 409, "boot_index"},
		{"volume without a node", "POST", "/v1/volume/targets", `{"volume_type":"iscsi","volume_id":"w","boot_index":1}`, 400, "node_uuid"},
		{"connector that is taken", "POST", "/v1/volume/connectors", `{"node_uuid":"` + other + `","type":"iqn","connector_id":"c"}`, 409, "connector_id"},

		{"shards with an argument", "GET", "/v1/shards?limit=5", "", 400, "Unexpected arguments: limit"},
		{"methods of a driver that does not exist", "GET", "/v1/drivers/toaster/properties", "", 404, "toaster"},
		{"history with no size", "GET", "/v1/nodes/one/history?limit=0", "", 400, "limit"},
		{"patch that tests", "PATCH", "/v1/nodes/one", `[{"op":"test","path":"/name","value":"one"}]`, 400, "add, replace or remove"},
		{"patch that copies", "PATCH", "/v1/nodes/one", `[{"op":"copy","from":"/name","path":"/description"}]`, 400, "add, replace or remove"},
		{"capabilities as an object", "PATCH", "/v1/nodes/one", `[{"op":"add","path":"/properties/capabilities","value":{"a":"b"}}]`, 400, "capabilities"},
		{"events of an unknown kind", "POST", "/v1/events", `{"events":[{"event":"odd"}]}`, 400, "event"},
	}
	for _, key := range []string{
		"properties", "driver_info", "extra", "instance_info", "driver_internal_info", "clean_step", "deploy_step",
		"service_step", "raid_config", "target_raid_config", "traits", "network_data",
	} {
		tests = append(tests, row{"order by " + key, "GET", "/v1/nodes?sort_key=" + key, "", 400, key})
	}
	for _, name := range []string{"states", "vendor_passthru", "management", "maintenance", "detail", "validate"} {
		tests = append(tests, row{"reserved name " + name, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"` + name + `"}`, 400, "reserved"})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := e.rows(t)
			e.refuse(t, before, refusal{method: test.method, path: test.path, header: latest, body: test.body, status: test.status, text: test.text})
		})
	}
}

// TestRefusalsByVersion asks older versions for what came later.
func TestRefusalsByVersion(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	item := "/v1/nodes/" + e.create(t, `{"driver":"fake-hardware"}`)
	patch := func(field, value string) string {
		return fmt.Sprintf(`[{"op":"add","path":"/%s","value":%s}]`, field, value)
	}
	verb := func(name string) string { return `{"target":"` + name + `"}` }
	for _, test := range []struct {
		name, method, path, body string
		version                  int // the last without it
		status                   int
	}{
		{"field of a new node", "POST", "/v1/nodes", `{"driver":"fake-hardware","owner":"a"}`, 49, 406},
		{"field of a patch", "PATCH", item, patch("description", `"a"`), 50, 406},
		{"field of a list", "GET", "/v1/nodes?fields=lessee", "", 64, 406},
		{"order of a list", "GET", "/v1/nodes?sort_key=resource_class", "", 20, 406},
		{"filter of a list", "GET", "/v1/nodes?fault=power%20failure", "", 41, 406},
		{"filter by driver", "GET", "/v1/nodes?driver=a", "", 15, 406},
		{"field of a port", "POST", "/v1/ports", `{"node_uuid":"` + nobody + `","address":"52:54:00:00:02:01","name":"a"}`, 87, 406},
		{"traits", "GET", item + "/traits", "", 36, 406},
		{"change of traits", "PUT", item + "/traits", `{"traits":[]}`, 36, 405},
		{"list of allocations", "GET", "/v1/allocations", "", 51, 404},
		{"new allocation", "POST", "/v1/allocations", `{"resource_class":"a"}`, 51, 405},
		{"new deploy template", "POST", "/v1/deploy_templates", `{}`, 54, 405},
		{"new runbook", "POST", "/v1/runbooks", `{}`, 91, 405},
		{"BIOS settings", "GET", item + "/bios", "", 39, 404},
		{"firmware", "GET", item + "/firmware", "", 85, 404},
		{"inventory", "GET", item + "/inventory", "", 80, 404},
		{"history", "GET", item + "/history", "", 77, 404},
		{"networks", "GET", item + "/vifs", "", 27, 404},
		{"media", "POST", item + "/vmedia", `{"device_type":"cdrom","image_url":"http://h/a"}`, 88, 404},
		{"port groups", "GET", "/v1/portgroups", "", 22, 404},
		{"volumes", "GET", "/v1/volume/targets", "", 31, 404},
		{"conductors", "GET", "/v1/conductors", "", 48, 404},
		{"shards", "GET", "/v1/shards", "", 81, 404},
		{"lookup", "GET", "/v1/lookup?addresses=52:54:00:00:02:01", "", 21, 404},
		{"heartbeat", "POST", "/v1/heartbeat/" + nobody, `{}`, 21, 404},
		{"verb manage", "PUT", item + "/states/provision", verb("manage"), 3, 406},
		{"verb inspect", "PUT", item + "/states/provision", verb("inspect"), 5, 406},
		{"verb abort", "PUT", item + "/states/provision", verb("abort"), 12, 406},
		{"verb clean", "PUT", item + "/states/provision", verb("clean"), 14, 406},
		{"verb adopt", "PUT", item + "/states/provision", verb("adopt"), 16, 406},
		{"verb rescue", "PUT", item + "/states/provision", verb("rescue"), 37, 406},
		{"verb deploy", "PUT", item + "/states/provision", verb("deploy"), 72, 406},
		{"verb unhold", "PUT", item + "/states/provision", verb("unhold"), 84, 406},
		{"verb service", "PUT", item + "/states/provision", verb("service"), 86, 406},
		{"soft power off", "PUT", item + "/states/power", verb("soft power off"), 26, 406},
	} {
		t.Run(test.name, func(t *testing.T) {
			version := headers{"X-OpenStack-Ironic-API-Version": fmt.Sprint("1.", test.version)}
			form := faultForm
			if test.status != http.StatusNotAcceptable {
				form = routerForm
			}
			e.refuse(t, e.rows(t), refusal{method: test.method, path: test.path, header: version, body: test.body, status: test.status, form: form})
		})
	}
}

// TestRequestsOverALimitAreAskedToComeBack reaches the limits of work and of
// discovered machines.
func TestRequestsOverALimitAreAskedToComeBack(t *testing.T) {
	t.Parallel()
	e := start(t, func(cfg *engine.Config) {
		cfg.Conductor.MaxCleaning, cfg.Conductor.MaxDeploying, cfg.AutoDiscovery.MaxNodes = 1, 1, 1
	})
	f := stateNodes{running: e}
	verbs := map[string]string{
		"clean":  `{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase_devices"}]}`,
		"active": `{"target":"active"}`,
	}
	for _, name := range []string{"first", "second"} {
		for verb := range verbs {
			n := name + "-" + verb
			e.create(t, `{"driver":"fake-hardware","name":"`+n+`","driver_info":{"fake_clean_wait":3600,"fake_deploy_wait":3600}}`)
			f.move(t, n, "manage", "", "manageable")
			if verb == "active" {
				f.change(t, n, `[{"op":"add","path":"/automated_clean","value":false}]`)
				f.move(t, n, "provide", "", "available")
			}
		}
	}
	for verb, body := range verbs {
		e.do(t, "PUT", "/v1/nodes/first-"+verb+"/states/provision", body).want(t, http.StatusAccepted)
		e.do(t, "PUT", "/v1/nodes/second-"+verb+"/states/provision", body).checkOutage(t, "limit")
	}
	e.post(t, machine("52:54:00:00:03:01"))
	e.send(t, "POST", "/v1/continue_inspection", nil, strings.NewReader(machine("52:54:00:00:03:02"))).checkOutage(t, "limit")
}
