//go:build compat

package compat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/test/process"
)

// recorded is one exchange of the recording: what a real agent sent, and what a stand-in for an
// engine answered, after which the agent continued.
type recorded struct {
	Direction string            `json:"direction"`
	Method    string            `json:"method"`
	Path      string            `json:"path"`
	Headers   map[string]string `json:"headers"`
	Body      json.RawMessage   `json:"body"`
	Answer    struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"answer"`
}

// agentCalls returns what the recorded agent asked of its engine: inspection
// data, root document, lookup and two heartbeats.
func agentCalls(t *testing.T) []recorded {
	t.Helper()
	text, err := os.ReadFile("testdata/ironic-python-agent-9.11.0.json")
	must(t, "read recording", err)
	var all, calls []recorded
	must(t, "decode recording", json.Unmarshal(text, &all))
	for _, r := range all {
		if r.Direction == "agent to engine" {
			calls = append(calls, r)
		}
	}
	if len(calls) != 5 {
		t.Fatalf("the recording has %d calls of the agent, want 5", len(calls))
	}
	return calls
}

// replay sends the call as it was recorded, except for replaced texts, and
// returns status and body of the answer.
func (r recorded) replay(t *testing.T, url string, replace ...string) (int, []byte) {
	t.Helper()
	replacer := strings.NewReplacer(replace...)
	var body io.Reader
	if string(r.Body) != "null" {
		body = strings.NewReader(replacer.Replace(string(r.Body)))
	}
	request, err := http.NewRequestWithContext(t.Context(), r.Method, url+replacer.Replace(r.Path), body)
	must(t, "make request", err)
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	return exchangeWith(t, request)
}

func exchangeWith(t *testing.T, request *http.Request) (int, []byte) {
	t.Helper()
	answer, err := http.DefaultClient.Do(request)
	must(t, request.Method+" "+request.URL.Path, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, "read answer to "+request.URL.Path, err)
	return answer.StatusCode, text
}

// wantShape fails the test unless got has every key of the recorded answer, with a value of the
// same kind. got may have more keys, because agents ignore new ones.
func wantShape(t *testing.T, where string, recorded, got any) {
	t.Helper()
	want, isObject := recorded.(map[string]any)
	if !isObject {
		if recorded != nil && got != nil && fmt.Sprintf("%T", recorded) != fmt.Sprintf("%T", got) {
			t.Errorf("%s is %T, the recorded answer has %T", where, got, recorded)
		}
		return
	}
	object, ok := got.(map[string]any)
	if !ok {
		t.Errorf("%s is %T, the recorded answer has an object", where, got)
		return
	}
	for key, value := range want {
		member, there := object[key]
		if !there {
			t.Errorf("%s has no %q, the recorded answer has", where, key)
			continue
		}
		wantShape(t, where+"."+key, value, member)
	}
}

func decodeJSON(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return object
}

// TestRecordedAgentIsServed lets a recorded agent boot on an unknown machine. It sends the agent's
// calls, in their order and with their headers, to a real engine.
func TestRecordedAgentIsServed(t *testing.T) {
	url, calls := serveEngine(t), agentCalls(t)
	inspection, root, lookup, heartbeat, later := calls[0], calls[1], calls[2], calls[3], calls[4]
	if len(inspection.Headers["X-OpenStack-Ironic-API-Version"]) > 0 {
		t.Fatal("the recorded inspection post names a version, which agents do not")
	}

	status, text := inspection.replay(t, url)
	uuid, _ := decodeJSON(t, text)["uuid"].(string)
	if want := `{"uuid":"` + uuid + `"}`; status != http.StatusOK || string(text) != want || len(uuid) != 36 {
		t.Fatalf("inspection: got %d %s, want 200 and the node's UUID alone", status, text)
	}

	status, text = root.replay(t, url)
	if status != root.Answer.Status {
		t.Errorf("root: got status %d, want %d", status, root.Answer.Status)
	}
	wantShape(t, "root", decodeJSON(t, root.Answer.Body), decodeJSON(t, text))

	recordedUUID, _ := decodeJSON(t, inspection.Answer.Body)["uuid"].(string)
	status, text = lookup.replay(t, url, recordedUUID, uuid)
	if status != http.StatusOK { // agents accept nothing else
		t.Fatalf("lookup: got %d %s", status, text)
	}
	wantShape(t, "lookup", decodeJSON(t, lookup.Answer.Body), decodeJSON(t, text))
	found, wasFound := lookupAnswer(t, text), lookupAnswer(t, lookup.Answer.Body)
	if found.Node.UUID != uuid || found.Node.Properties["cpu_arch"] != "x86_64" || len(found.Config.AgentToken) < 32 {
		t.Errorf("lookup: got %s", text)
	}

	status, text = heartbeat.replay(t, url, recordedUUID, uuid, wasFound.Config.AgentToken, found.Config.AgentToken)
	if status != http.StatusAccepted || len(text) > 0 { // agents count other answers as failures
		t.Errorf("heartbeat: got %d %q, want 202 without a body", status, text)
	}
	if status, text = heartbeat.replay(t, url, recordedUUID, uuid); status != http.StatusBadRequest {
		t.Errorf("heartbeat with a token of another engine: got %d %s, want 400", status, text)
	}

	checkKept(t, url, uuid, inspection)
	for _, step := range []struct{ verb, state string }{{"manage", "manageable"}, {"provide", "available"}} {
		askFor(t, url, uuid, step.verb)
		awaitState(t, url, uuid, step.state)
	}
	if status, text = later.replay(t, url, recordedUUID, uuid, wasFound.Config.AgentToken, found.Config.AgentToken); status != http.StatusAccepted || len(text) > 0 {
		t.Errorf("heartbeat of the available node: got %d %s, want 202", status, text)
	}
}

// lookupDocument is what the agent reads of a lookup.
type lookupDocument struct {
	Node struct {
		UUID       string         `json:"uuid"`
		Properties map[string]any `json:"properties"`
	} `json:"node"`
	Config struct {
		AgentToken string `json:"agent_token"`
	} `json:"config"`
}

func lookupAnswer(t *testing.T, text []byte) (found lookupDocument) {
	t.Helper()
	must(t, "decode lookup", json.Unmarshal(text, &found))
	return found
}

// checkKept compares what the engine stores about the machine with what was sent.
func checkKept(t *testing.T, url, uuid string, inspection recorded) {
	t.Helper()
	var sent, kept struct {
		Inventory json.RawMessage            `json:"inventory"`
		Plugins   map[string]json.RawMessage `json:"plugin_data"`
	}
	must(t, "decode recorded document", json.Unmarshal(inspection.Body, &sent))
	must(t, "decode inventory", json.Unmarshal(read(t, url+"/v1/nodes/"+uuid+"/inventory"), &kept))
	if !bytes.Equal(sent.Inventory, kept.Inventory) {
		t.Errorf("the inventory is not what was sent: (-sent +kept)\n%s", cmp.Diff(string(sent.Inventory), string(kept.Inventory)))
	}
	for _, key := range []string{"root_disk", "boot_interface", "configuration", "error", "all_interfaces", "valid_interfaces", "macs"} {
		if _, ok := kept.Plugins[key]; !ok {
			t.Errorf("plugin_data has no %q", key)
		}
	}
	if got := string(kept.Plugins["auto_discovered"]); got != "true" {
		t.Errorf("plugin_data.auto_discovered is %q, want true", got)
	}
	n := decodeJSON(t, read(t, url+"/v1/nodes/"+uuid))
	info, _ := n["driver_internal_info"].(map[string]any)
	if n["auto_discovered"] != true || n["name"] != nil || n["provision_state"] != "enroll" || n["last_error"] != nil {
		t.Errorf("the discovered node is %v", n)
	}
	if info["agent_url"] != "http://127.0.0.1:9999" || info["agent_version"] != "9.11.0" || info["agent_secret_token"] != "******" {
		t.Errorf("the node knows of its agent: %v", info)
	}
	ports, _ := decodeJSON(t, read(t, url+"/v1/nodes/"+uuid+"/ports"))["ports"].([]any)
	if len(ports) != 1 {
		t.Errorf("the node has ports %v, want that of eth0", ports)
	}
}

// read gets a document at the newest microversion.
func read(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, "make request", err)
	request.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	status, text := exchangeWith(t, request)
	if status != http.StatusOK {
		t.Fatalf("read %s: got %d %s", url, status, text)
	}
	return text
}

func askFor(t *testing.T, url, uuid, verb string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/v1/nodes/"+uuid+"/states/provision", strings.NewReader(`{"target":"`+verb+`"}`))
	must(t, "make request", err)
	request.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	if status, text := exchangeWith(t, request); status != http.StatusAccepted {
		t.Fatalf("%s: got %d %s", verb, status, text)
	}
}

func awaitState(t *testing.T, url, uuid, state string) {
	t.Helper()
	await(t, "node "+uuid+" to become "+state, func() bool {
		return decodeJSON(t, read(t, url+"/v1/nodes/"+uuid))["provision_state"] == state
	})
}

// postInspection posts a document as agents do and waits until its hooks are
// done. It returns the node's UUID.
func postInspection(t *testing.T, url, document string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/continue_inspection", strings.NewReader(document))
	must(t, "make request", err)
	request.Header.Set("Content-Type", "application/json")
	status, text := exchangeWith(t, request)
	if status != http.StatusOK {
		t.Fatalf("post inspection data: got %d %s", status, text)
	}
	uuid, _ := decodeJSON(t, text)["uuid"].(string)
	await(t, "inspection of "+uuid, func() bool {
		return decodeJSON(t, read(t, url+"/v1/nodes/"+uuid))["inspection_finished_at"] != nil
	})
	return uuid
}

// await waits until done holds.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	process.Eventually(t, 20*time.Second, what, done)
}
