//go:build attack

package attack_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// mallory is a machine that nobody registered.
var mallory = netip.MustParseAddr("127.0.66.1")

func TestLookupTellsNoSecrets(t *testing.T) {
	e := startEngine(t, "")
	n := e.awaitRamdisk(1)
	e.admin().must(t, http.MethodPatch, "/v1/nodes/"+n.uuid, `[
		{"op":"add","path":"/instance_info/image_source","value":"https://images.example/disk.raw?X-Amz-Signature=hunter2"},
		{"op":"add","path":"/instance_info/user_data","value":"password: hunter2"},
		{"op":"add","path":"/properties/firmware","value":"https://ann:hunter2@files.example/bios.bin"},
		{"op":"add","path":"/properties/root_device","value":{"name":"/dev/sda"}},
		{"op":"add","path":"/properties/agent_files","value":"https://ann:hunter2@files.example/x?sig=hunter2"}]`)
	status, text, err := e.clientAt(mallory).do(t.Context(), http.MethodGet, "/v1/lookup?addresses="+n.mac, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("lookup: %d %v %s", status, err, text)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("whoever knows a MAC address reads a secret: %s", text)
	}
	if !strings.Contains(string(text), "/dev/sda") {
		t.Errorf("the ramdisk does not learn its root device: %s", text)
	}
}

func TestHeartbeatFieldsAreBounded(t *testing.T) {
	e := startEngine(t, "")
	n := e.awaitRamdisk(1)
	c := e.clientAt(mallory)
	token := c.must(t, http.MethodGet, "/v1/lookup?addresses="+n.mac, "")["config"].(map[string]any)["agent_token"]
	for field, bound := range map[string]int{
		"callback_url": 1024, "agent_version": 255, "agent_verify_ca": 16 << 10, "agent_status": 255, "agent_status_message": 64 << 10,
	} {
		fields := map[string]string{"callback_url": "https://127.0.66.1:9999", "agent_version": "9.0"}
		fields[field] += strings.Repeat("x", bound+1)
		var body strings.Builder
		fmt.Fprintf(&body, `{"agent_token":%q`, token)
		for name, value := range fields {
			fmt.Fprintf(&body, `,%q:%q`, name, value)
		}
		status, _, err := c.do(t.Context(), http.MethodPost, "/v1/heartbeat/"+n.uuid, []byte(body.String()+"}"))
		if err != nil || status != http.StatusBadRequest {
			t.Errorf("a heartbeat whose %s is longer than %d bytes: %d %v, want 400", field, bound, status, err)
		}
	}
	if text := fmt.Sprint(e.admin().must(t, http.MethodGet, "/v1/nodes/"+n.uuid, "")); len(text) > 8<<10 {
		t.Errorf("the node has %d bytes afterwards", len(text))
	}
}

func TestHeartbeatsDoNotTellWhichNodesExist(t *testing.T) {
	e := startEngine(t, "")
	n := e.awaitRamdisk(1)
	c := e.clientAt(mallory)
	answers := map[string]string{}
	for _, ident := range []string{n.uuid, "known-1", "unknown-1", "00000000-0000-4000-8000-000000000000"} {
		status, text, err := c.do(t.Context(), http.MethodPost, "/v1/heartbeat/"+ident, []byte(`{"callback_url":"https://127.0.66.1:9999","agent_version":"9.0","agent_token":"guess"}`))
		if err != nil {
			t.Fatal(err)
		}
		answers[fmt.Sprintf("%d %s", status, text)] += ident + " "
	}
	if len(answers) != 1 {
		t.Errorf("answers differ: %v", answers)
	}
}

// TestSquatterKeepsNoMachineOut posts the address of a machine as that of an unknown machine,
// before and after the machine is registered.
func TestSquatterKeepsNoMachineOut(t *testing.T) {
	e := startEngine(t, "")
	squat := func(macs ...string) {
		t.Helper()
		_, _, err := e.clientAt(mallory).do(t.Context(), http.MethodPost, "/v1/continue_inspection", []byte(inventoryOf(macs...)))
		if err != nil {
			t.Fatal(err)
		}
	}
	early := macOf(7)
	squat("06:00:00:00:00:01", early)
	n := e.awaitRamdisk(7)
	machine := e.clientAt(netip.MustParseAddr("127.0.1.7"))
	second := "02:aa:00:00:01:07" // another interface of the machine, without a port so far
	squat("06:00:00:00:00:02", second)
	found := machine.must(t, http.MethodPost, "/v1/continue_inspection?node_uuid="+n.uuid, inventoryOf(n.mac, second))
	if got := found["node"].(map[string]any)["uuid"]; got != n.uuid {
		t.Errorf("the machine is taken for node %v, want its own", got)
	}
	e.awaitState(n, "manageable")
	ports := e.admin().must(t, http.MethodGet, "/v1/ports?node_uuid="+n.uuid, "")["ports"].([]any)
	if len(ports) != 2 {
		t.Errorf("the machine has %d ports, want both of its interfaces: %v", len(ports), ports)
	}
}
