package engine_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/engine"
)

// TestSecretsNeverLeaveTheEngine stores secrets in every way there is, reads all
// that clients can read and looks for them in answers and log.
func TestSecretsNeverLeaveTheEngine(t *testing.T) {
	e := start(t, nil)
	const secret = "hunter2-"
	members := []string{
		`"ipmi_password":"%s"`, `"redfish_password" : "%s"`, `"REDFISH_Password":"%s"`, `"pass\u0077ord":"%s"`,
		`"snmp_auth_key":"%s"`, `"snmp_priv_key":"%s"`, `"ipmi_hex_kg_key":"%s"`, `"api_token":"%s"`, `"client_secret":"%s"`,
		`"nested":{"deep":[{"password":"%s"}]}`, `"password_list":["%s"]`, `"password_object":{"a":"%s"}`,
		`"deploy_iso":"http://user:%s@192.0.2.1/a.iso"`, `"urls":["https://user:%s@192.0.2.1/a"]`,
	}
	var info []string
	for i, member := range members {
		info = append(info, fmt.Sprintf(member, fmt.Sprintf("%s%d", secret, i)))
	}
	all := "{" + strings.Join(info, ",") + "}"
	// An administrator reads instance_info as it was written; it must not be in the log.
	const written = "trout-"
	uuid := e.create(t, `{"driver":"fake-hardware","name":"a","driver_info":`+all+`,"instance_info":`+strings.ReplaceAll(all, secret, written)+`}`)
	item := "/v1/nodes/" + uuid
	for _, path := range []string{item, "/v1/nodes/a", "/v1/nodes/detail", "/v1/nodes?detail=true", "/v1/nodes?fields=driver_info,instance_info", item + "?fields=driver_info", item + "/states"} {
		e.do(t, "GET", path, "").want(t, http.StatusOK)
	}
	e.send(t, "GET", item, nil, nil).want(t, http.StatusOK)

	// Errors quote what was sent; they must not quote this.
	for _, body := range []string{
		`[{"op":"replace","path":"/driver_info/ipmi_password/x","value":"hunter2-a"}]`,
		`[{"op":"add","path":"/driver_info","value":"hunter2-b"}]`,
		`[{"op":"test","path":"/driver_info/ipmi_password","value":"hunter2-c"}]`,
		`[{"op":"add","path":"/driver_info/none/password","value":"hunter2-d"}]`,
		`[{"op":"add","path":"/driver_info/ipmi_password","value":"hunter2-e"},{"op":"remove","path":"/extra/none"}]`,
	} {
		if got := e.do(t, "PATCH", item, body); got.status < 400 {
			t.Errorf("%s: got status %d", body, got.status)
		}
	}
	for _, body := range []string{`{"driver":"fake-hardware","driver_info":"hunter2-f"}`, `{"driver":"fake-hardware","driver_info":{"password":"hunter2-g"}`, `{"driver":"fake-hardware","driver_info":["hunter2-h"]}`} {
		e.do(t, "POST", "/v1/nodes", body).want(t, http.StatusBadRequest)
	}

	// The mask written back keeps what is stored; nothing of it comes out.
	e.do(t, "PATCH", item, `[{"op":"replace","path":"/driver_info/ipmi_password","value":"******"}]`).want(t, http.StatusOK)
	e.do(t, "PATCH", item, `[{"op":"add","path":"/driver_info/ipmi_password","value":"hunter2-new"}]`).want(t, http.StatusOK)
	e.do(t, "PUT", item+"/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	e.awaitNode(t, uuid, inState("manageable"))

	for _, search := range []struct{ where, text, secret string }{
		{"an answer", e.seen.String(), secret}, {"the log", e.log.String(), secret}, {"the log", e.log.String(), written},
	} {
		if i := strings.Index(search.text, search.secret); i >= 0 {
			t.Errorf("%s has a secret: %s", search.where, search.text[max(0, i-200):min(len(search.text), i+50)])
		}
	}
}

// TestAgentTokenIsToldOnce follows a token through everything that mentions its
// node.
func TestAgentTokenIsToldOnce(t *testing.T) {
	e := start(t, nil)
	uuid := e.post(t, machine(goodMAC))
	e.awaitNode(t, uuid, inspected)
	told := e.send(t, "GET", "/v1/lookup?node_uuid="+uuid, headers{"X-OpenStack-Ironic-API-Version": "1.62"}, nil).want(t, http.StatusOK)
	config, _ := told.object(t)["config"].(map[string]any)
	token, _ := config["agent_token"].(string)
	if len(token) < 32 {
		t.Fatalf("got token %q, want at least 32 characters", token)
	}
	if strings.Count(told.body, token) != 1 {
		t.Errorf("the token stands in the answer more than once: %s", told.body)
	}
	seen := e.seen.String()

	beat := fmt.Sprintf(`{"callback_url":"http://192.0.2.1:9999","agent_version":"9","agent_token":%q}`, token)
	e.do(t, "POST", "/v1/heartbeat/"+uuid, beat).want(t, http.StatusAccepted)
	for _, body := range []string{
		strings.Replace(beat, "9999", "1", 1), strings.Replace(beat, token, token[1:], 1), strings.Replace(beat, `"9"`, `""`, 1), beat[:len(beat)-1], strings.Replace(beat, `"agent_version"`, `"agent_colour"`, 1),
	} {
		e.do(t, "POST", "/v1/heartbeat/"+uuid, body).want(t, http.StatusBadRequest)
	}
	for _, path := range []string{"/v1/lookup?node_uuid=" + uuid, "/v1/lookup?addresses=" + goodMAC} {
		e.do(t, "GET", path, "").want(t, http.StatusConflict)
	}
	for _, path := range []string{"/v1/nodes/" + uuid, "/v1/nodes/detail", "/v1/nodes/" + uuid + "/inventory", "/v1/nodes?fields=driver_internal_info"} {
		e.do(t, "GET", path, "").want(t, http.StatusOK)
	}
	for where, text := range map[string]string{"a later answer": e.seen.String()[len(seen):], "the log": e.log.String()} {
		if strings.Contains(text, token) || strings.Contains(text, token[1:]) {
			t.Errorf("%s has the token", where)
		}
	}
}

// TestRefusedMachinesCannotTellWhy compares the answers that unauthenticated
// machines get for different reasons, byte by byte.
func TestRefusedMachinesCannotTellWhy(t *testing.T) {
	const waiting, offline = "52:54:00:00:01:01", "52:54:00:00:02:01"
	dir := t.TempDir()
	e := startIn(t, dir, nil)
	known := e.post(t, machine(waiting))
	other := e.post(t, machine(offline))
	e.awaitNode(t, known, inspected)
	e.awaitNode(t, other, inspected)
	registered := e.create(t, `{"driver":"fake-hardware","driver_info":{"redfish_address":"https://192.0.2.77"}}`)
	e.stop(t)
	e = startIn(t, dir, func(c *engine.Config) { c.AutoDiscovery.Enabled = false })

	withBMC := func(mac string) string {
		return inventoryOf(goodInterfaceWith(mac), `,"bmc_address":"192.0.2.77"`)
	}
	posts := map[string][2]string{ // path and document
		"unknown machine, discovery off":     {"", machine("52:54:00:00:09:01")},
		"known machine, wrong state":         {"", machine(waiting)},
		"addresses of two nodes":             {"", machine(waiting, offline)},
		"BMC of a node that is not waiting":  {"", withBMC("52:54:00:00:09:02")},
		"unknown UUID":                       {"?node_uuid=" + nobody, machine("52:54:00:00:09:03")},
		"unknown UUID, known addresses":      {"?node_uuid=" + nobody, machine(waiting)},
		"UUID of a node in the wrong state":  {"?node_uuid=" + registered, machine("52:54:00:00:09:04")},
		"UUID of one, addresses of another":  {"?node_uuid=" + known, machine(offline)},
		"UUID and addresses, wrong state":    {"?node_uuid=" + known, machine(waiting)},
		"UUID of one, addresses of many":     {"?node_uuid=" + known, machine(waiting, offline)},
		"UUID of one, BMC address of others": {"?node_uuid=" + known, withBMC(waiting)},
	}
	for _, version := range []headers{nil, latest} {
		first := ""
		for name, request := range posts {
			before := e.rows(t)
			got := e.send(t, "POST", "/v1/continue_inspection"+request[0], version, strings.NewReader(request[1])).want(t, http.StatusNotFound)
			got.checkFault(t, faultForm, "could not be found")
			if first == "" {
				first = got.plain()
			}
			if diff := cmp.Diff(first, got.plain()); diff != "" {
				t.Errorf("%s can be told from another reason:\n%s", name, diff)
			}
			if e.rows(t) != before {
				t.Errorf("%s: something was written", name)
			}
		}
	}
	lookups := map[string]string{
		"unknown address":        "addresses=52:54:00:00:09:01",
		"unknown UUID":           "node_uuid=" + nobody,
		"addresses of two nodes": "addresses=" + waiting + "," + offline,
		"wrong state":            "node_uuid=" + registered,
		"name for a UUID":        "node_uuid=" + nobody + "&addresses=" + waiting,
	}
	first := ""
	for name, query := range lookups {
		got := e.send(t, "GET", "/v1/lookup?"+query, latest, nil).want(t, http.StatusNotFound)
		if first == "" {
			first = got.plain()
		}
		if diff := cmp.Diff(first, got.plain()); diff != "" {
			t.Errorf("lookup, %s: can be told from another reason:\n%s", name, diff)
		}
	}
}

var requestID = regexp.MustCompile(`req-[0-9a-f-]{36}`)

// plain is everything of an answer but the request ID and the date.
func (a answer) plain() string {
	header := a.header.Clone()
	if _, err := time.Parse(http.TimeFormat, header.Get("Date")); err == nil {
		header.Del("Date")
	}
	return requestID.ReplaceAllString(fmt.Sprintf("%d %v %s", a.status, header, a.body), "req-x")
}

func TestRamdiskEndpointsCanBeTurnedOff(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.API.DisableRamdiskEndpoints = true })
	uuid := e.create(t, `{"driver":"fake-hardware"}`)
	before := e.rows(t)
	for _, test := range []refusal{
		{name: "lookup", method: "GET", path: "/v1/lookup?node_uuid=" + uuid},
		{name: "lookup of nothing", method: "GET", path: "/v1/lookup"},
		{name: "heartbeat", method: "POST", path: "/v1/heartbeat/" + uuid, body: `{"callback_url":"http://192.0.2.1:9999","agent_version":"9","agent_token":"x"}`},
		{name: "heartbeat of nobody", method: "POST", path: "/v1/heartbeat/" + nobody, body: `{}`},
		{name: "inspection data", method: "POST", path: "/v1/continue_inspection", body: machine(goodMAC)},
		{name: "no inspection data", method: "POST", path: "/v1/continue_inspection", body: "x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.header, test.status, test.text = latest, http.StatusForbidden, "disabled"
			before = e.refuse(t, before, test)
		})
	}
	e.node(t, uuid)
}

// TestFailuresTellNoCredentialsOfURLs makes a machine fail with the text that libraries
// write, and reads everything that reports the failure.
func TestFailuresTellNoCredentialsOfURLs(t *testing.T) {
	e := start(t, nil)
	const secret = "hunter2"
	uuid := e.create(t, `{"driver":"fake-hardware","name":"a","driver_info":{"fake_verify_error":
		"Get \"https://user:`+secret+`@192.0.2.1/a.iso?signature=`+secret+`\": refused"}}`)
	e.do(t, "PUT", "/v1/nodes/a/states/provision", `{"target":"manage"}`).want(t, http.StatusAccepted)
	failed := e.awaitNode(t, uuid, func(n map[string]any) bool { return n["last_error"] != nil })
	history := e.do(t, "GET", "/v1/nodes/a/history/detail", "").want(t, http.StatusOK).body
	for where, text := range map[string]string{"last_error": fmt.Sprint(failed["last_error"]), "the history": history, "the log": e.log.String()} {
		if strings.Contains(text, secret) || !strings.Contains(text, "://******@192.0.2.1/a.iso?signature=******") {
			t.Errorf("%s has %s", where, text)
		}
	}
}
