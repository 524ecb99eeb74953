package recording_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/sim/recording"
)

const text = `{"format":"ingot-bmc-recording/1","documents":{
"/redfish/v1/":{"status":200,"body":{"Systems":{"@odata.id":"/redfish/v1/Systems"}}},
"/redfish/v1/Systems":{"status":200,"headers":{"Etag":"W/1"},"body":{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}},
"/redfish/v1/Systems?$skip=1":{"status":200,"body":{"Members":[]}},
"/redfish/v1/Systems/?$skip=2":{"status":200,"body":{"Members":["last"]}},
"/redfish/v1/Systems/1":{"status":200,"body":{"@odata.type":"#ComputerSystem.v1_0_0.ComputerSystem","PowerState":"Off",
 "Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]},
 "Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},
 "Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/Reset","@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetInfo"}}}},
"/redfish/v1/Systems/1/ResetInfo":{"status":200,"body":{"Parameters":[{"Name":"ResetType","AllowableValues":["On","ForceOff","PushPowerButton"]}]}},
"/redfish/v1/Chassis/1":{"status":200,"body":{"PowerState":"Off"}},
"/redfish/v1/Broken":{"status":500,"body":null}}}`

func newServer(t *testing.T) *httptest.Server {
	t.Helper()
	service, err := recording.New(strings.NewReader(text), "root", "calvin-1")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return server
}

// call makes a request with credentials, or with a token in the form "token …".
func call(t *testing.T, server *httptest.Server, method, path, body, as string) (int, http.Header, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token, ok := strings.CutPrefix(as, "token "); ok {
		request.Header.Set("X-Auth-Token", token)
	} else if as != "" {
		request.SetBasicAuth("root", as)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &document); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
	}
	return response.StatusCode, response.Header, document
}

func TestDocumentsAreServedAsTheyWereRecorded(t *testing.T) {
	server := newServer(t)
	for _, test := range []struct {
		method, path, as string
		want             int
	}{
		{"GET", "/redfish", "", 200},
		{"GET", "/redfish/v1", "", 200},
		{"GET", "/redfish/v1/", "", 200},
		{"GET", "/redfish/v1/Systems", "", 401},
		{"GET", "/redfish/v1/Systems", "wrong", 401},
		{"GET", "/redfish/v1/Systems", "token guess", 401},
		{"GET", "/redfish/v1/Systems/", "calvin-1", 200},
		{"GET", "/redfish/v1/Broken", "calvin-1", 500},
		{"GET", "/redfish/v1/Nothing", "calvin-1", 404},
		{"PATCH", "/redfish/v1/Chassis/1", "calvin-1", 501},
		{"DELETE", "/redfish/v1/Systems/1", "calvin-1", 501},
		{"POST", "/redfish/v1/Nothing", "calvin-1", 501},
		{"POST", "/redfish/v1/Systems/1/Actions/Reset", "", 401},
	} {
		status, _, document := call(t, server, test.method, test.path, "{}", test.as)
		if status != test.want {
			t.Errorf("%s %s: status %d, want %d", test.method, test.path, status, test.want)
		}
		if _, explained := document["error"]; test.want > 400 && test.want != 500 && !explained {
			t.Errorf("%s %s: body %v, want an error", test.method, test.path, document)
		}
	}
	_, header, document := call(t, server, "GET", "/redfish/v1/Systems", "", "calvin-1")
	if header.Get("ETag") != "W/1" || len(document["Members"].([]any)) != 1 {
		t.Errorf("header %v, document %v", header, document)
	}
	if _, _, document = call(t, server, "GET", "/redfish/v1/Systems?$skip=1", "", "calvin-1"); len(document["Members"].([]any)) != 0 {
		t.Errorf("the second page is %v", document)
	}
}

func TestPageIsFoundWithOrWithoutASlashBeforeItsQuery(t *testing.T) {
	server := newServer(t)
	for _, path := range []string{"/redfish/v1/Systems/?$skip=2", "/redfish/v1/Systems?$skip=2"} {
		_, _, document := call(t, server, "GET", path, "", "calvin-1")
		if members, _ := document["Members"].([]any); len(members) != 1 || members[0] != "last" {
			t.Errorf("%s: %v, want the last page", path, document)
		}
	}
}

func TestSessionsBeginAndEnd(t *testing.T) {
	server := newServer(t)
	const at = "/redfish/v1/SessionService/Sessions"
	if status, _, _ := call(t, server, "POST", at, `{"UserName":"root","Password":"guess"}`, ""); status != 401 {
		t.Errorf("wrong password: status %d", status)
	}
	if status, _, _ := call(t, server, "POST", at, `nothing`, ""); status != 400 {
		t.Errorf("no JSON: status %d", status)
	}
	first := ""
	for i := range 17 {
		status, header, _ := call(t, server, "POST", at, `{"UserName":"root","Password":"calvin-1"}`, "")
		if status != 201 || header.Get("Location") == "" {
			t.Fatalf("login %d: status %d, %v", i, status, header)
		}
		if i == 0 {
			first = "token " + header.Get("X-Auth-Token")
			if status, _, _ := call(t, server, "GET", "/redfish/v1/Systems", "", first); status != 200 {
				t.Errorf("with a session: status %d", status)
			}
		}
		if i == 16 {
			token := "token " + header.Get("X-Auth-Token")
			if status, _, _ := call(t, server, "DELETE", header.Get("Location"), "", token); status != 204 {
				t.Errorf("logout: status %d", status)
			}
			if status, _, _ := call(t, server, "GET", "/redfish/v1/Systems", "", token); status != 401 {
				t.Errorf("after the logout: status %d", status)
			}
		}
	}
	if status, _, _ := call(t, server, "GET", "/redfish/v1/Systems", "", first); status != 401 {
		t.Errorf("the oldest session of too many: status %d", status)
	}
	if _, _, list := call(t, server, "GET", at, "", "calvin-1"); len(list["Members"].([]any)) != 15 {
		t.Errorf("sessions %v", list)
	}
}

func TestPowerChangesInAllDocumentsThatShowIt(t *testing.T) {
	server := newServer(t)
	for _, test := range []struct {
		kind   string
		status int
		power  string
	}{{"On", 204, "On"}, {"ForceOff", 204, "Off"}, {"PushPowerButton", 204, "On"}, {"PushPowerButton", 204, "Off"}, {"ForceRestart", 400, "Off"}, {"Melt", 400, "Off"}} {
		if status, _, _ := call(t, server, "POST", "/redfish/v1/Systems/1/Actions/Reset", `{"ResetType":"`+test.kind+`"}`, "calvin-1"); status != test.status {
			t.Errorf("%s: status %d, want %d", test.kind, status, test.status)
		}
		for _, path := range []string{"/redfish/v1/Systems/1", "/redfish/v1/Chassis/1"} {
			if _, _, document := call(t, server, "GET", path, "", "calvin-1"); document["PowerState"] != test.power {
				t.Errorf("%s: %s is %v, want %s", test.kind, path, document["PowerState"], test.power)
			}
		}
	}
}

func TestBootOverrideIsKept(t *testing.T) {
	server := newServer(t)
	for body, want := range map[string]int{
		`{"Boot":{"BootSourceOverrideTarget":"Cd"}}`: 400, `{"Boot":{"BootOrder":[]}}`: 501, `{"AssetTag":"x"}`: 501, `{}`: 501,
		`{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}`: 204,
	} {
		if status, _, _ := call(t, server, "PATCH", "/redfish/v1/Systems/1", body, "calvin-1"); status != want {
			t.Errorf("%s: status %d, want %d", body, status, want)
		}
	}
	_, _, document := call(t, server, "GET", "/redfish/v1/Systems/1", "", "calvin-1")
	boot := document["Boot"].(map[string]any)
	if boot["BootSourceOverrideTarget"] != "Pxe" || boot["BootSourceOverrideEnabled"] != "Once" || boot["BootSourceOverrideTarget@Redfish.AllowableValues"] == nil {
		t.Errorf("boot override %v", boot)
	}
}

func TestFilesThatAreNoRecordingsAreRefused(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "<html>", "other format": `{"format":"x"}`, "no root": `{"format":"ingot-bmc-recording/1","documents":{}}`,
		"no status": `{"format":"ingot-bmc-recording/1","documents":{"/redfish/v1/":{"body":{}}}}`,
	} {
		if _, err := recording.New(strings.NewReader(content), "a", "b"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzRecordingsOfAnyShapeAreServed(f *testing.F) {
	f.Add(text)
	f.Add(`{"format":"ingot-bmc-recording/1","documents":{"/redfish/v1":{"status":200,"body":{"@odata.type":"#ComputerSystem.1","Links":[],"Boot":3,"Actions":{"#ComputerSystem.Reset":[]}}}}}`)
	f.Fuzz(func(t *testing.T, content string) {
		service, err := recording.New(strings.NewReader(content), "a", "b")
		if err != nil {
			return
		}
		for _, request := range []*http.Request{
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/redfish/v1/Systems/1", nil),
			httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/redfish/v1/Systems/1/Actions/Reset", strings.NewReader(`{"ResetType":"On"}`)),
			httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/redfish/v1/Systems/1", strings.NewReader(`{"Boot":{"BootSourceOverrideTarget":"Pxe"}}`)),
		} {
			request.SetBasicAuth("a", "b")
			service.ServeHTTP(httptest.NewRecorder(), request)
		}
	})
}
