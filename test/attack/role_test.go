//go:build attack

package attack_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRolesKeepTheirBounds tries what only administrators may do, as other users.
func TestRolesKeepTheirBounds(t *testing.T) {
	e := startEngine(t, "")
	n := e.awaitRamdisk(1)
	e.admin().must(t, http.MethodPatch, "/v1/nodes/"+n.uuid, `[
		{"op":"add","path":"/driver_info/redfish_address","value":"https://bmc-hunter2"},
		{"op":"add","path":"/driver_info/redfish_password","value":"hunter2"},
		{"op":"add","path":"/instance_info/userData","value":"hunter2"},
		{"op":"add","path":"/instance_info/image_source","value":"https://u:p,hunter2@images.example/disk.raw?sig=hunter2"}]`)
	readers, operators := []string{"rita"}, []string{"otto"}
	for _, attack := range []struct {
		users              []string
		method, path, body string
	}{
		{readers, http.MethodPost, "/v1/nodes", `{"driver":"fake-hardware"}`},
		{readers, http.MethodPatch, "/v1/nodes/" + n.uuid, `[{"op":"add","path":"/extra/x","value":1}]`},
		{readers, http.MethodPut, "/v1/nodes/" + n.uuid + "/states/power", `{"target":"power off"}`},
		{readers, http.MethodPut, "/v1/nodes/" + n.uuid + "/states/provision", `{"target":"abort"}`},
		{readers, http.MethodPut, "/v1/nodes/" + n.uuid + "/maintenance", `{"reason":"x"}`},
		{append(operators, readers...), http.MethodDelete, "/v1/nodes/" + n.uuid, ""},
		{append(operators, readers...), http.MethodDelete, "/v1/ports/" + n.mac, ""},
		{append(operators, readers...), http.MethodPatch, "/v1/nodes/" + n.uuid, `[{"op":"replace","path":"/driver_info/redfish_address","value":"https://evil"}]`},
		{append(operators, readers...), http.MethodPatch, "/v1/nodes/" + n.uuid, `[{"op":"test","path":"/driver_info/redfish_password","value":"hunter2"}]`},
		{append(operators, readers...), http.MethodPost, "/v1/nodes", `{"driver":"fake-hardware","driver_info":{"a":"b"}}`},
	} {
		for _, user := range attack.users {
			status, text, err := e.user(user).do(t.Context(), attack.method, attack.path, []byte(attack.body))
			// A test of a value fails with 400, because there is nothing to compare it with.
			guess := status == http.StatusBadRequest && strings.Contains(attack.body, `"test"`)
			if err != nil || status != http.StatusForbidden && !guess {
				t.Errorf("%s: %s %s %s: %d %v %s, want 403", user, attack.method, attack.path, attack.body, status, err, text)
			}
		}
	}
	for user := range users {
		for _, path := range []string{"/v1/nodes/" + n.uuid, "/v1/nodes/detail", "/v1/nodes?fields=driver_info,instance_info", "/v1/nodes/" + n.uuid + "/history/detail"} {
			if user == "ann" {
				continue // ann may read where the BMC is, and instance_info as it was written
			}
			if text := fmt.Sprint(e.user(user).must(t, http.MethodGet, path, "")); strings.Contains(text, "hunter2") {
				t.Errorf("%s reads a secret at %s: %s", user, path, text)
			}
		}
	}
	if info := fmt.Sprint(e.admin().must(t, http.MethodGet, "/v1/nodes/"+n.uuid, "")["driver_info"]); info != "map[redfish_address:https://bmc-hunter2 redfish_password:******]" {
		t.Errorf("driver_info = %s, want it unchanged and its password masked", info)
	}
}

// TestMaskIsNoSecret writes the text that masks secrets where there is no secret.
func TestMaskIsNoSecret(t *testing.T) {
	e := startEngine(t, "")
	n := e.awaitRamdisk(1)
	for _, value := range []string{`"******"`, `["******"]`, `{"password":"******"}`, `[{"password":"******"}]`, `"https://******@bmc/"`} {
		status, text, err := e.admin().do(t.Context(), http.MethodPatch, "/v1/nodes/"+n.uuid, []byte(`[{"op":"add","path":"/driver_info/a","value":`+value+`}]`))
		if err != nil || status != http.StatusBadRequest {
			t.Errorf("%s: %d %v %s, want 400", value, status, err, text)
		}
	}
}

// TestWhatMachinesSayIsReadable prints a name that YAML must escape.
func TestWhatMachinesSayIsReadable(t *testing.T) {
	e := startEngine(t, "")
	const said = "tag \U000E0041 \u2028 \u0085 << !!binary"
	n := e.awaitRamdisk(1)
	e.admin().must(t, http.MethodPatch, "/v1/nodes/"+n.uuid, "[{\"op\":\"add\",\"path\":\"/extra/<<\",\"value\":\""+said+"\"}]")
	command := exec.CommandContext(t.Context(), binary, "node", "show", n.uuid, "-o", "yaml")
	command.Env = append(command.Environ(), "OS_ENDPOINT=http://"+e.address, "OS_AUTH_TYPE=http_basic", "OS_USERNAME=ann", "OS_PASSWORD=ann")
	output, err := command.Output()
	if err != nil {
		t.Fatalf("ingot node show: %v %s", err, output)
	}
	var shown struct {
		Extra map[string]string `json:"extra"`
	}
	if err := yaml.Unmarshal(output, &shown); err != nil || shown.Extra["<<"] != said {
		t.Errorf("ingot prints %s, which is read as %q, %v; want %q", output, shown.Extra, err, said)
	}
}
