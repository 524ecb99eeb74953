package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// suspend gives a node work and suspends it.
func (s *engineServer) suspend(uuids ...string) {
	s.tb.Helper()
	err := s.db.Write(s.tb.Context(), func(tx *store.Tx) error {
		for _, uuid := range uuids {
			n, err := tx.Node(uuid)
			if err != nil {
				return err
			}
			if err := tx.AddWork(&store.Work{NodeID: n.ID, Kind: "clean"}); err != nil {
				return err
			}
			if _, err := tx.NotePowerDifference(n.ID, node.PowerOn); err != nil {
				return err
			}
		}
		_, _, err := tx.Suspend(node.Restored, "a test says so")
		return err
	})
	if err != nil {
		s.tb.Fatal(err)
	}
}

func TestSuspensionIsShownAndEnded(t *testing.T) {
	s := newEngineServer(t)
	document := s.get("/ingot/suspension").want(http.StatusOK).json()
	want := map[string]any{
		"suspended": false, "reason": nil, "detail": nil, "since": nil, "nodes": 0.0, "differing": 0.0, "ended_at": nil,
	}
	if diff := cmp.Diff(want, document); diff != "" {
		t.Errorf("nothing suspended (-want +got):\n%s", diff)
	}
	s.do("PUT", "/ingot/suspension", "", `{"target":"resume"}`).want(http.StatusNoContent) // already so
	cleaned := func(n *node.Node) { n.ProvisionState, n.PowerState = node.Cleaning, node.PowerOff }
	dropped, resumed, left := s.node(cleaned), s.node(cleaned), s.node(cleaned)
	s.suspend(dropped, resumed, left)

	document = s.do("GET", "/ingot/suspension", "", "").want(http.StatusOK).json()
	if since, _ := document["since"].(string); since == "" {
		t.Errorf("since %v", document["since"])
	}
	delete(document, "since")
	want = map[string]any{
		"suspended": true, "reason": "restored", "detail": "a test says so", "nodes": 3.0, "differing": 3.0, "ended_at": nil,
	}
	if diff := cmp.Diff(want, document); diff != "" {
		t.Errorf("suspension (-want +got):\n%s", diff)
	}
	nodes, _ := s.get("/ingot/suspension/nodes").want(http.StatusOK).json()["nodes"].([]any)
	if len(nodes) != 3 {
		t.Fatalf("nodes %v", nodes)
	}
	first, _ := nodes[0].(map[string]any)
	delete(first, "observed_at")
	want = map[string]any{
		"uuid": dropped, "name": nil, "provision_state": "cleaning", "work": []any{"clean"}, "power_state": "power off", "observed_power_state": "power on",
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}

	refused := s.do("PUT", "/v1/nodes/"+resumed+"/states/power", "latest", `{"target":"power on"}`).want(http.StatusConflict)
	if text, _ := refused.fault()["faultstring"].(string); !strings.Contains(text, "ingot suspension resume "+resumed) {
		t.Errorf("refusal %q", text)
	}
	if n := s.get("/v1/nodes/" + resumed).json(); n["reservation"] != "(suspended)" {
		t.Errorf("reservation %v", n["reservation"])
	}
	s.do("PUT", "/ingot/suspension/nodes/"+dropped, "", `{"target":"drop"}`).want(http.StatusNoContent)
	if n := s.get("/v1/nodes/" + dropped).json(); n["provision_state"] != "clean failed" || n["reservation"] != nil {
		t.Errorf("dropped: %v, reserved by %v", n["provision_state"], n["reservation"])
	}
	s.do("PUT", "/ingot/suspension/nodes/"+resumed, "", `{"target":"resume"}`).want(http.StatusNoContent)
	s.do("PUT", "/ingot/suspension/nodes/"+resumed, "", `{"target":"resume"}`).want(http.StatusConflict)
	s.do("PUT", "/ingot/suspension", "", `{"target":"resume"}`).want(http.StatusNoContent)
	document = s.get("/ingot/suspension").json()
	if document["suspended"] != false || document["nodes"] != 0.0 || document["ended_at"] == nil {
		t.Errorf("after the end: %v", document)
	}
}

func TestSuspensionRefusesWhatItDoesNotKnow(t *testing.T) {
	s := newEngineServer(t)
	uuid := s.node()
	for _, test := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/ingot/suspension", `{"target":"drop"}`, http.StatusBadRequest},
		{"PUT", "/ingot/suspension", `{"target":"resume","force":true}`, http.StatusBadRequest},
		{"PUT", "/ingot/suspension", ``, http.StatusBadRequest},
		{"DELETE", "/ingot/suspension", ``, http.StatusMethodNotAllowed},
		{"PUT", "/ingot/suspension/nodes/" + uuid, `{"target":"begin"}`, http.StatusBadRequest},
		{"PUT", "/ingot/suspension/nodes/" + uuid, `{"target":"drop"}`, http.StatusConflict},
		{"PUT", "/ingot/suspension/nodes/nobody", `{"target":"drop"}`, http.StatusNotFound},
		{"GET", "/ingot/else", ``, http.StatusNotFound},
		{"GET", "/v1/ingot/suspension", ``, http.StatusNotFound},
	} {
		s.do(test.method, test.path, "", test.body).want(test.want)
	}
	s.get("/ingot//suspension/").want(http.StatusOK) // as every path
}
