package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// nested returns JSON with n levels of nesting.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

func TestBadInputIsRefusedWithTheReasonAndWritesNothing(t *testing.T) {
	const item = "/v1/nodes/" + uuid1
	const portItem = "/v1/ports/" + uuid2
	create := func(fields string) string { return `{"driver":"fake-hardware",` + fields + `}` }
	tests := []struct {
		name, method, path, body string
		status                   int
		text                     string // in the fault string
	}{
		{"malformed JSON", "POST", "/v1/nodes", `{"driver":`, 400, "Malformed"},
		{"two documents", "POST", "/v1/nodes", `{} {}`, 400, "more than one"},
		{"array for object", "POST", "/v1/nodes", `[]`, 400, "a JSON object is expected"},
		{"null for object", "POST", "/v1/nodes", `null`, 400, "a JSON object is expected"},
		{"empty body", "POST", "/v1/nodes", "", 400, "needs a JSON body"},
		{"not UTF-8", "POST", "/v1/nodes", create("\"extra\":{\"a\":\"\xff\"}"), 400, "UTF-8"},
		{"deep nesting", "POST", "/v1/nodes", create(`"extra":` + nested(25)), 400, "deeper than 25"},
		{"no driver", "POST", "/v1/nodes", `{}`, 400, "needs a driver"},
		{"driver not enabled", "POST", "/v1/nodes", `{"driver":"redfish"}`, 400, "not enabled"},
		{"driver of wrong type", "POST", "/v1/nodes", `{"driver":5}`, 400, "got a number"},
		{"unknown key", "POST", "/v1/nodes", create(`"colour":"red"`), 400, `"colour"`},
		{"read-only key", "POST", "/v1/nodes", create(`"provision_state":"active"`), 400, "read-only"},
		{"flag of discovery", "POST", "/v1/nodes", create(`"auto_discovered":true`), 400, "read-only"},
		{"name like a UUID", "POST", "/v1/nodes", create(`"name":"` + uuid2 + `"`), 400, "UUID"},
		{"reserved name", "POST", "/v1/nodes", create(`"name":"detail"`), 400, "reserved"},
		{"reserved name of a node", "POST", "/v1/nodes", create(`"name":"Management"`), 400, "reserved"},
		{"reserved name of a port group", "POST", "/v1/portgroups", `{"node_uuid":"` + uuid1 + `","name":"detail"}`, 400, "reserved"},
		{"bad character in a name", "POST", "/v1/nodes", create(`"name":"a b"`), 400, "letters"},
		{"name too long", "POST", "/v1/nodes", create(`"name":"` + strings.Repeat("a", 256) + `"`), 400, "255"},
		{"malformed UUID", "POST", "/v1/nodes", create(`"uuid":"x"`), 400, "want a UUID"},
		{"UUID that is taken", "POST", "/v1/nodes", create(`"uuid":"` + uuid1 + `"`), 409, "exists"},
		{"object of wrong type", "POST", "/v1/nodes", create(`"extra":[]`), 400, "want a JSON object"},
		{"boolean of wrong type", "POST", "/v1/nodes", create(`"retired":"maybe"`), 400, "true or false"},
		{"text as object", "POST", "/v1/nodes", create(`"owner":{}`), 400, "got an object"},
		{"text as array", "POST", "/v1/nodes", create(`"owner":[]`), 400, "got an array"},
		{"text as boolean", "POST", "/v1/nodes", create(`"owner":true`), 400, "got a boolean"},
		{"text with a zero character", "POST", "/v1/nodes", create(`"owner":"a\u0000"`), 400, "zero character"},
		{"conductor group with a space", "POST", "/v1/nodes", create(`"conductor_group":"a b"`), 400, "conductor_group"},
		{"boolean as number", "POST", "/v1/nodes", create(`"retired":1`), 400, "got a number"},
		{"interface not supported", "POST", "/v1/nodes", create(`"power_interface":"redfish"`), 400, "power_interface"},
		{"protected from the start", "POST", "/v1/nodes", create(`"protected":true`), 400, "protected"},
		{"long resource class", "POST", "/v1/nodes", create(`"resource_class":"` + strings.Repeat("a", 81) + `"`), 400, "80"},
		{"mask without a secret", "POST", "/v1/nodes", create(`"driver_info":{"redfish_password":"******"}`), 400, "none is stored"},
		{"mask in a URL", "POST", "/v1/nodes", create(`"instance_info":{"image_source":"http://******@h/os"}`), 400, "Give them again"},
		{"too large", "POST", "/v1/nodes", `"` + strings.Repeat("a", maxBody) + `"`, 413, "larger than"},
		{"unknown argument", "POST", "/v1/nodes?x=1", `{}`, 400, "Unexpected arguments: x"},

		{"unknown arguments", "GET", "/v1/nodes?zzz=1&aaa=2", "", 400, "Unexpected arguments: aaa, zzz"},
		{"malformed query", "GET", "/v1/nodes?limit=%zz", "", 400, "Malformed query"},
		{"unknown field", "GET", "/v1/nodes?fields=uuid,colour", "", 400, "colour"},
		{"fields with detail", "GET", "/v1/nodes?fields=uuid&detail=true", "", 400, "cannot be combined"},
		{"limit zero", "GET", "/v1/nodes?limit=0", "", 400, "limit"},
		{"limit a word", "GET", "/v1/nodes?limit=all", "", 400, "limit"},
		{"marker no UUID", "GET", "/v1/nodes?marker=x", "", 400, "marker"},
		{"marker unknown", "GET", "/v1/nodes?marker=" + uuid3, "", 404, "could not be found"},
		{"sort by an object", "GET", "/v1/nodes?sort_key=properties", "", 400, "cannot be sorted"},
		{"sort by a lease", "GET", "/v1/nodes?sort_key=reservation", "", 400, "cannot be sorted"},
		{"sort by an unknown field", "GET", "/v1/nodes?sort_key=colour", "", 400, "colour"},
		{"sort direction", "GET", "/v1/nodes?sort_dir=up", "", 400, "asc or desc"},
		{"unknown state", "GET", "/v1/nodes?provision_state=asleep", "", 400, "asleep"},
		{"unknown fault", "GET", "/v1/nodes?fault=fire", "", 400, "fire"},
		{"boolean filter", "GET", "/v1/nodes?maintenance=perhaps", "", 400, "maintenance"},
		{"UUID filter", "GET", "/v1/nodes?instance_uuid=x", "", 400, "instance_uuid"},
		{"ident with strange characters", "GET", "/v1/nodes/a%20b", "", 400, "Expected the UUID or the name"},
		{"unknown node", "GET", "/v1/nodes/nobody", "", 404, "nobody"},
		{"argument of an item", "GET", item + "?detail=true", "", 400, "Unexpected arguments: detail"},

		{"patch that is an object", "PATCH", item, `{}`, 400, "array"},
		{"patch of numbers", "PATCH", item, `[1]`, 400, "array of patch operations"},
		{"patch of texts with wrong types", "PATCH", item, `[{"op":"add","path":5,"value":1}]`, 400, "path"},
		{"patch with unknown key", "PATCH", item, `[{"op":"add","path":"/name","value":"x","colour":1}]`, 400, "colour"},
		{"patch operation", "PATCH", item, `[{"op":"move","from":"/a","path":"/name"}]`, 400, "add, replace or remove"},
		{"patch without value", "PATCH", item, `[{"op":"add","path":"/name"}]`, 400, "needs a value"},
		{"patch path without slash", "PATCH", item, `[{"op":"add","path":"name","value":"x"}]`, 400, "path"},
		{"patch path empty", "PATCH", item, `[{"op":"add","path":"","value":{}}]`, 400, "path"},
		{"patch path with empty key", "PATCH", item, `[{"op":"add","path":"/extra//a","value":1}]`, 400, "path"},
		{"patch unknown field", "PATCH", item, `[{"op":"add","path":"/colour","value":1}]`, 400, "colour"},
		{"patch read-only field", "PATCH", item, `[{"op":"replace","path":"/provision_state","value":"active"}]`, 400, "cannot be changed"},
		{"patch traits", "PATCH", item, `[{"op":"add","path":"/traits/0","value":"CUSTOM_A"}]`, 400, "cannot be changed"},
		{"patch UUID", "PATCH", item, `[{"op":"replace","path":"/uuid","value":"` + uuid2 + `"}]`, 400, "cannot be changed"},
		{"patch below a text", "PATCH", item, `[{"op":"add","path":"/name/a","value":"x"}]`, 400, "no parts"},
		{"patch replaces absent key", "PATCH", item, `[{"op":"replace","path":"/extra/none","value":1}]`, 400, "/extra/none"},
		{"patch removes absent key", "PATCH", item, `[{"op":"remove","path":"/extra/none"}]`, 400, "/extra/none"},
		{"patch below absent key", "PATCH", item, `[{"op":"add","path":"/extra/none/a","value":1}]`, 400, "/extra/none/a"},
		{"patch removes driver", "PATCH", item, `[{"op":"remove","path":"/driver"}]`, 400, "driver"},
		{"patch too deep by small steps", "PATCH", item, `[{"op":"add","path":"/extra/a","value":` + nested(23) + `},{"op":"add","path":"/extra/a` +
			strings.Repeat("/a", 22) + `","value":` + nested(10) + `}]`, 400, "deeper than 25"},
		{"reset without driver", "PATCH", item + "?reset_interfaces=true", `[]`, 400, "reset_interfaces"},
		{"reset no boolean", "PATCH", item + "?reset_interfaces=x", `[]`, 400, "reset_interfaces"},

		{"verb unknown", "PUT", item + "/states/provision", `{"target":"explode"}`, 400, "explode"},
		{"number beyond every float", "PATCH", item, `[{"op":"add","path":"/extra/a","value":1e400}]`, 400, "too large"},
		{"verb absent", "PUT", item + "/states/provision", `{}`, 400, "Unknown provision verb"},
		{"verb of wrong type", "PUT", item + "/states/provision", `{"target":5}`, 400, "target"},
		{"verb with unknown key", "PUT", item + "/states/provision", `{"target":"manage","x":1}`, 400, `"x"`},
		{"verb with the key of another", "PUT", item + "/states/provision", `{"target":"manage","clean_steps":[]}`, 400, "clean_steps"},
		{"verb in the wrong state", "PUT", item + "/states/provision", `{"target":"provide"}`, 400, `"provide" can not be performed`},
		{"verb in the wrong state", "PUT", item + "/states/provision", `{"target":"rescue","rescue_password":"x"}`, 400, `"rescue" can not be performed`},
		{"console without enabled", "PUT", item + "/states/console", `{}`, 400, "needs the key enabled"},
		{"console with null", "PUT", item + "/states/console", `{"enabled":null}`, 400, "needs the key enabled"},
		{"console with a word", "PUT", item + "/states/console", `{"enabled":"perhaps"}`, 400, "true or false"},
		{"console with a number", "PUT", item + "/states/console", `{"enabled":1}`, 400, "true or false"},
		{"console with unknown key", "PUT", item + "/states/console", `{"enabled":true,"x":1}`, 400, `"x"`},
		{"console without body", "PUT", item + "/states/console", "", 400, "needs a JSON body"},
		{"console with an argument", "GET", item + "/states/console?x=1", "", 400, "Unexpected arguments: x"},
		{"console of nobody", "PUT", "/v1/nodes/nobody/states/console", `{"enabled":true}`, 404, "nobody"},
		{"maintenance with unknown key", "PUT", item + "/maintenance", `{"why":"x"}`, 400, "why"},
		{"maintenance reason of wrong type", "PUT", item + "/maintenance", `{"reason":5}`, 400, "reason"},

		{"port without address", "POST", "/v1/ports", `{"node_uuid":"` + uuid1 + `"}`, 400, "address"},
		{"port without node", "POST", "/v1/ports", `{"address":"52:54:00:12:34:57"}`, 400, "node_uuid"},
		{"port of unknown node", "POST", "/v1/ports", `{"address":"52:54:00:12:34:57","node_uuid":"` + uuid3 + `"}`, 400, uuid3},
		{"port with bad address", "POST", "/v1/ports", `{"address":"52:54:00","node_uuid":"` + uuid1 + `"}`, 400, "MAC"},
		{"port with long address", "POST", "/v1/ports", `{"address":"52:54:00:12:34:56:78:9a","node_uuid":"` + uuid1 + `"}`, 400, "MAC"},
		{"port with half a link", "POST", "/v1/ports", `{"address":"52:54:00:12:34:57","node_uuid":"` + uuid1 + `","local_link_connection":{"switch_id":"52:54:00:12:34:58"}}`, 400, "local_link_connection"},
		{"port by address", "GET", "/v1/ports/52:54:00:12:34:56", "", 400, "UUID of a port"},
		{"port moved", "PATCH", portItem, `[{"op":"replace","path":"/node_uuid","value":"` + uuid3 + `"}]`, 400, "another node"},
		{"port address removed", "PATCH", portItem, `[{"op":"remove","path":"/address"}]`, 400, "address"},
		{"ports by bad address", "GET", "/v1/ports?address=x", "", 400, "MAC"},

		{"driver unknown", "GET", "/v1/drivers/toaster", "", 404, "toaster"},
		{"driver type unknown", "GET", "/v1/drivers?type=odd", "", 400, "odd"},
		{"driver field unknown", "GET", "/v1/drivers?fields=odd", "", 400, "odd"},
		{"conductor unknown", "GET", "/v1/conductors/nobody", "", 404, "nobody"},
		{"no inventory", "GET", item + "/inventory", "", 404, "Inventory"},

		{"lookup of nothing", "GET", "/v1/lookup", "", 400, "at least one valid MAC"},
		{"lookup of bad addresses", "GET", "/v1/lookup?addresses=x,y", "", 400, "at least one valid MAC"},
		{"lookup of bad UUID", "GET", "/v1/lookup?node_uuid=x", "", 400, "node_uuid"},
		{"lookup with more", "GET", "/v1/lookup?node_uuid=" + uuid1 + "&x=1", "", 400, "Unexpected arguments: x"},
		{"heartbeat without URL", "POST", "/v1/heartbeat/" + uuid1, `{"agent_version":"9"}`, 400, "callback_url"},
		{"heartbeat with bad URL", "POST", "/v1/heartbeat/" + uuid1, `{"agent_version":"9","callback_url":"ftp://x"}`, 400, "callback_url"},
		{"heartbeat without version", "POST", "/v1/heartbeat/" + uuid1, `{"callback_url":"http://192.0.2.1:9999"}`, 400, "agent_version"},
		{"heartbeat with unknown key", "POST", "/v1/heartbeat/" + uuid1, `{"callback_url":"http://192.0.2.1:9999","agent_version":"9","x":1}`, 400, `"x"`},
		{"heartbeat with bad status", "POST", "/v1/heartbeat/" + uuid1, `{"callback_url":"http://192.0.2.1:9999","agent_version":"9","agent_status":"odd"}`, 400, "agent_status"},
		{"inspection without body", "POST", "/v1/continue_inspection", "", 400, "inventory"},
		{"inspection too deep", "POST", "/v1/continue_inspection", nested(26), 400, "deeper than 25"},
		{"inspection with bad UUID", "POST", "/v1/continue_inspection?node_uuid=x", `{}`, 400, "node_uuid"},
		{"inspection with more", "POST", "/v1/continue_inspection?x=1", `{}`, 400, "Unexpected arguments: x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.addNode(uuid1)
			s.engine.ports = []*node.Port{{UUID: uuid2, NodeUUID: uuid1, Address: "52:54:00:12:34:56"}}
			before := fmt.Sprintf("%+v %+v", *s.engine.nodes[0], *s.engine.ports[0])
			got := s.do(tt.method, tt.path, "latest", tt.body).want(tt.status)
			fault := got.json()
			if tt.status != http.StatusRequestEntityTooLarge {
				fault = got.fault()
			}
			if text := fmt.Sprint(fault["faultstring"]); fault["faultcode"] != "Client" || !strings.Contains(text, tt.text) {
				t.Errorf("got fault %v, want %q in it", fault, tt.text)
			}
			after := fmt.Sprintf("%+v %+v", *s.engine.nodes[0], *s.engine.ports[0])
			if len(s.engine.nodes) != 1 || len(s.engine.ports) != 1 || before != after || len(s.engine.documents)+len(s.engine.beats)+len(s.engine.verbs) > 0 {
				t.Errorf("something was written:\n%s\n%s", before, after)
			}
		})
	}
}

func TestContentTypeMustBeJSON(t *testing.T) {
	s := newServer(t)
	for contentType, want := range map[string]int{
		"": 201, "application/json": 201, "application/json; charset=utf-8": 201, "application/json-patch+json": 201,
		"text/plain": 415, "application/x-www-form-urlencoded": 415, ";;": 415,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/nodes", strings.NewReader(`{"driver":"fake-hardware"}`))
		r.Header.Set("Content-Type", contentType)
		if got := s.send(r); got.status != want {
			t.Errorf("content type %q: got %d, want %d", contentType, got.status, want)
		}
	}
}

// TestLargeBodiesAreAnsweredOnARealConnection sends bodies over their limit, with and
// without a length.
func TestLargeBodiesAreAnsweredOnARealConnection(t *testing.T) {
	s := newServer(t)
	web := httptest.NewServer(s.handler)
	defer web.Close()
	for _, known := range []bool{true, false} {
		var body io.Reader = strings.NewReader(strings.Repeat(" ", 20<<20))
		if !known {
			body = io.MultiReader(body) // hides the length
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/continue_inspection", body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := web.Client().Do(request)
		if err != nil {
			t.Fatalf("length known %v: %v", known, err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge || !strings.HasPrefix(string(text), `{"faultcode":"Client"`) {
			t.Errorf("length known %v: got %d %s, %v", known, answer.StatusCode, text, err)
		}
	}
	if len(s.engine.documents) > 0 {
		t.Error("a document over the limit reached the engine")
	}
}

// countingReader counts the bytes that were read from a body.
type countingReader struct {
	io.Reader
	read int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func TestClientThatExpectsContinueNeedNotSendALargeBody(t *testing.T) {
	web := httptest.NewServer(newServer(t).handler)
	defer web.Close()
	body := &countingReader{Reader: strings.NewReader(strings.Repeat(" ", maxBody+1))}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/nodes", body)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = maxBody + 1
	request.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge || body.read > 0 {
		t.Errorf("got %d after %d bytes of body, want 413 before the first", answer.StatusCode, body.read)
	}
}

func TestEachErrorOfTheEngineHasItsStatus(t *testing.T) {
	tests := []struct {
		err        error
		status     int
		retryAfter string
		text       string
	}{
		{&node.NotFoundError{Kind: "Node", Ident: "x"}, 404, "", "Node x could not be found."},
		{&node.LockedError{Node: "x", Holder: "ingot-2"}, 409, "", "is locked by host ingot-2"},
		{node.ErrLocked, 409, "", "is locked by host"},
		{node.ErrLeaseLost, 409, "", "retry"},
		{node.ErrBusy, 503, "5", "retry"},
		{&node.BusyError{Reason: "Nodes being cleaned: 9."}, 503, "5", "Nodes being cleaned: 9."},
		{node.ErrUnavailable, 503, "5", "database"},
		{&node.UnavailableError{Reason: "The disk is full."}, 503, "5", "The disk is full."},
		{node.Invalid("bad %d", 1), 400, "", "bad 1"},
		{node.Conflict("taken"), 409, "", "taken"},
		{&node.ForbiddenError{Reason: "protected"}, 403, "", "protected"},
		{&node.TransitionError{Node: "x", Verb: "provide", State: node.Enroll}, 400, "", `"provide"`},
		{&node.DriverError{Op: "read power state", Retryable: true, Reason: "BMC silent"}, 503, "5", "BMC silent"},
		{&node.DriverError{Op: "read power state", Reason: "BMC silent"}, 500, "", "BMC silent"},
		{context.DeadlineExceeded, 503, "5", "in time"},
		{errInternal, 500, "", "request ID"},
	}
	for _, tt := range tests {
		s := newServer(t)
		s.engine.err = fmt.Errorf("wrapped: %w", tt.err)
		got := s.get("/v1/nodes").want(tt.status)
		fault := got.fault()
		wantCode := "Client"
		if tt.status >= 500 {
			wantCode = "Server"
		}
		if text := fmt.Sprint(fault["faultstring"]); !strings.Contains(text, tt.text) || strings.Contains(text, "wrapped") || fault["faultcode"] != wantCode {
			t.Errorf("%v: got fault %v", tt.err, fault)
		}
		if value, ok := fault["debuginfo"]; !ok || value != nil {
			t.Errorf("%v: debuginfo is %v, want null", tt.err, value)
		}
		if got := got.header.Get("Retry-After"); got != tt.retryAfter {
			t.Errorf("%v: Retry-After %q, want %q", tt.err, got, tt.retryAfter)
		}
		if strings.Contains(got.body, "secret detail") {
			t.Errorf("%v: internals in the answer: %s", tt.err, got.body)
		}
	}
}
