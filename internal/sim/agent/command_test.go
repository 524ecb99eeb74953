package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	stepHead = `{"node":{},"ports":[],"step":`
)

// answered runs one command to its end and returns status and body.
func answered(t *testing.T, a *Agent, name, params string) (int, map[string]any) {
	t.Helper()
	recorder := httptest.NewRecorder()
	a.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/v1/commands/?wait=true",
		strings.NewReader(`{"name":"`+name+`","params":`+params+`}`)))
	var body map[string]any
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		t.Fatalf("decode answer %s: %v", recorder.Body, err)
	}
	return recorder.Code, body
}

func TestCommandsSucceedWithPlausibleResults(t *testing.T) {
	goodImage := serveImage(t, diskImage(4096)).info("")
	for _, tc := range []struct {
		name, params string
		want         any // command_result; nil means null
	}{
		{"standby.sync", `{}`, nil},
		{"standby.cache_image", `{"image_info":` + goodImage + `}`, map[string]any{"result": "cache_image: image (img) cached to device /dev/vda"}},
		{"standby.prepare_image", `{"image_info":` + goodImage + `,"configdrive":null}`, map[string]any{"result": "prepare_image: image (img) written to device /dev/vda root_uuid=0x00000000"}},
		{"standby.get_partition_uuids", `{}`, map[string]any{}},
		{"image.install_bootloader", `{"root_uuid":null,"target_boot_mode":"uefi"}`, nil},
		{"rescue.finalize_rescue", `{"rescue_password":"x","hashed":true}`, nil},
		{"poll.set_node_info", `{"node_info":{}}`, nil},
		{
			"clean.execute_clean_step", stepHead + `{"step":"erase_devices_metadata","interface":"deploy"},"clean_version":{"generic_hardware_manager":"1.2"}}`,
			map[string]any{"clean_result": nil, "clean_step": map[string]any{"step": "erase_devices_metadata", "interface": "deploy"}},
		},
		{
			"service.execute_service_step", stepHead + `{"step":"burnin_cpu"}}`,
			map[string]any{"service_result": nil, "service_step": map[string]any{"step": "burnin_cpu"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAgent(t, nil, func(c *Config) { c.Clock = newFakeClock(true) })
			status, got := answered(t, a, tc.name, tc.params)
			if status != 200 || got["command_status"] != statusSucceeded {
				t.Fatalf("command is answered %d %v, want success", status, got)
			}
			if diff := cmp.Diff(tc.want, got["command_result"]); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRAIDStepHasTheVolumesThatItMadeAsItsResult(t *testing.T) {
	software, other := `{"logical_disks":[{"size_gb":"MAX","raid_level":"1","controller":"software"}]}`, `{"logical_disks":[{"size_gb":9,"raid_level":"5"}]}`
	for name, tc := range map[string]struct {
		command, node, step string
		want                string // the result of the step
	}{
		"target":                    {"clean", `{"target_raid_config":` + software + `}`, `{"step":"create_configuration"}`, software},
		"no target":                 {"clean", `{"target_raid_config":{}}`, `{"step":"create_configuration"}`, `{}`},
		"target for a controller":   {"service", `{"target_raid_config":` + other + `}`, `{"step":"create_configuration"}`, `{}`},
		"argument":                  {"deploy", `{}`, `{"step":"apply_configuration","args":{"raid_config":` + software + `}}`, software},
		"argument for a controller": {"deploy", `{}`, `{"step":"apply_configuration","args":{"raid_config":` + other + `}}`, `{}`},
		"deletion":                  {"clean", `{"target_raid_config":` + software + `}`, `{"step":"delete_configuration"}`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, nil, func(c *Config) { c.Clock = newFakeClock(true) })
			_, got := answered(t, a, tc.command+".execute_"+tc.command+"_step", `{"ports":[],"node":`+tc.node+`,"step":`+tc.step+`}`)
			result, _ := got["command_result"].(map[string]any)
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, result[tc.command+"_result"]); diff != "" || got["command_status"] != statusSucceeded {
				t.Errorf("the answer is %v; its result differs (-want +got):\n%s", got, diff)
			}
		})
	}
}

func TestWriteImageStepHasTheResultOfTheImageCommand(t *testing.T) {
	a := newAgent(t, nil, func(c *Config) { c.Clock = newFakeClock(true) })
	image := serveImage(t, []byte("a file system")).info(`,"image_type":"partition"`)
	_, got := answered(t, a, "deploy.execute_deploy_step", stepHead+`{"step":"write_image","args":{"image_info":`+image+`}}}`)
	result, _ := got["command_result"].(map[string]any)
	inner, _ := result["deploy_result"].(map[string]any)
	if text, _ := inner["result"].(string); !strings.HasPrefix(text, "prepare_image: image (img) written to device /dev/vda root_uuid=") {
		t.Errorf("result is %v, want that of the image command inside", got)
	}
	_, uuids := answered(t, a, "standby.get_partition_uuids", `{}`)
	found, _ := uuids["command_result"].(map[string]any)
	if found["root uuid"] == nil || found["efi system partition uuid"] == nil {
		t.Errorf("partitions are %v after a partition image was written, want both identifiers", found)
	}
}

func TestCommandsFailAsTheRealAgentDoes(t *testing.T) {
	for _, tc := range []struct {
		what, name, params string
		status             int
		command, text      string // command_status and a part of the body
	}{
		{"name without extension", "sync", `{}`, 400, "", "Invalid command: Command name must be of the form"},
		{"image without places", "standby.prepare_image", `{"image_info":{"id":"x"}}`, 400, "", "Image is missing 'urls' field."},
		{"image without a place", "standby.prepare_image", `{"image_info":{"id":"x","urls":[],"checksum":"x"}}`, 400, "", "non-empty list"},
		{"image without checksum", "standby.prepare_image", `{"image_info":{"id":"x","urls":["u"]}}`, 400, "", "checksum"},
		{"image that is a text", "standby.cache_image", `{"image_info":"x"}`, 400, "", "'id'"},
		{"bootloader without root", "image.install_bootloader", `{}`, 200, statusFailed, "missing 1 required positional argument: 'root_uuid'"},
		{"step list without ports", "clean.get_clean_steps", `{"node":{}}`, 200, statusFailed, "missing 1 required positional argument: 'ports'"},
		{"step without node and ports", "deploy.execute_deploy_step", `{"step":{}}`, 200, statusFailed, "missing 2 required positional arguments: 'node' and 'ports'"},
		{"step of another version", "service.execute_service_step", stepHead + `{"step":"burnin_cpu"},"service_version":{"b":"2","a":"1"}}`, 200, statusVersionMismatch, `{'a': '1', 'b': '2'}`},
		{"deploy step in cleaning", "clean.execute_clean_step", stepHead + `{"step":"write_image"}}`, 200, statusFailed, "Could not find method: write_image"},
		{"step that is a number", "clean.execute_clean_step", stepHead + `5}`, 200, statusFailed, "read the step"},
		{"write_image without image", "deploy.execute_deploy_step", stepHead + `{"step":"write_image","args":{}}}`, 200, statusFailed, "InvalidCommandParamsError"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			a := newAgent(t, nil, func(c *Config) { c.Clock = newFakeClock(true) })
			status, got := answered(t, a, tc.name, tc.params)
			body, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(body), `\u0026`, "&")
			if status != tc.status || !strings.Contains(text, tc.text) {
				t.Errorf("answer is %d %s, want %d and %q", status, text, tc.status, tc.text)
			}
			if tc.command != "" && got["command_status"] != tc.command {
				t.Errorf("command is %v, want %s", got["command_status"], tc.command)
			}
		})
	}
}

func TestRequestsThatAreNoCommands(t *testing.T) {
	for _, tc := range []struct {
		what, method, path, body string
		status                   int
		text                     string
	}{
		{"no JSON", "POST", "/v1/commands/", `{"name":`, 400, "400 Bad Request: "},
		{"empty body", "POST", "/v1/commands/", ``, 400, "400 Bad Request: "},
		{"number as name", "POST", "/commands/", `{"name":1,"params":{}}`, 400, "Missing or invalid name or params"},
		{"list as parameters", "POST", "/v1/commands/", `{"name":"standby.sync","params":[]}`, 400, "Missing or invalid name or params"},
		{"wrong method", "DELETE", "/v1/commands/", ``, 405, "405 Method Not Allowed: The method is not allowed"},
		{"status by POST", "POST", "/v1/status", ``, 405, "405 Method Not Allowed"},
		{"deep path", "GET", "/v1/commands/a/b", ``, 404, "404 Not Found"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			newAgent(t, nil, nil).Handler().ServeHTTP(recorder, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
			var f struct {
				Code   string `json:"faultcode"`
				String string `json:"faultstring"`
			}
			if err := json.Unmarshal(recorder.Body.Bytes(), &f); err != nil {
				t.Fatalf("decode fault %q: %v", recorder.Body, err)
			}
			if recorder.Code != tc.status || f.Code != "Client" || !strings.Contains(f.String, tc.text) {
				t.Errorf("answer is %d %+v, want %d and %q", recorder.Code, f, tc.status, tc.text)
			}
		})
	}
}
