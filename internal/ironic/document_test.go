package ironic

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestsCarryWhatTheCallerGaveAndAnswersMayBeEmpty(t *testing.T) {
	var body string
	f, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			text, _ := io.ReadAll(r.Body)
			body += string(text)
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				return true
			}
			reply(w, http.StatusCreated, map[string]int{"big": 9007199254740993})
			return true
		}
	})
	empty, err := client.Do(t.Context(), Request{Op: "x", Method: http.MethodPost, Path: []string{"nodes", "a/b", "vmedia"}, Body: map[string]string{"image_url": "u"}})
	if err != nil || empty != nil {
		t.Errorf("empty answer: %s, %v", empty, err)
	}
	document, err := client.Do(t.Context(), Request{Op: "x", Method: http.MethodDelete, Path: []string{"nodes"}, Query: map[string][]string{"a": {"b c"}}})
	if err != nil || string(document) != `{"big":9007199254740993}` {
		t.Errorf("answer: %s, %v", document, err)
	}
	want := []string{"GET /v1/", "POST /v1/nodes/a%2Fb/vmedia", "DELETE /v1/nodes?a=b+c"}
	if diff := cmp.Diff(want, f.paths()); diff != "" || body != `{"image_url":"u"}` {
		t.Errorf("body %q, requests (-want +got):\n%s", body, diff)
	}
}

func TestAnswerThatIsNoJSONIsNamedSo(t *testing.T) {
	_, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/ports/p1" {
				return false
			}
			_, _ = w.Write([]byte("<html>"))
			return true
		}
	})
	_, err := client.Document(t.Context(), "show port p1", Listing{Collection: []string{"ports"}}, "p1")
	if !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v, want ErrProtocol", err)
	}
	if _, err := client.Do(t.Context(), Request{Op: "x", Method: http.MethodGet, Path: []string{"nodes", ".."}}); !errors.Is(err, ErrRejected) {
		t.Errorf("a path that leaves its place: %v, want ErrRejected", err)
	}
}

func TestFieldThatAnEngineLacksIsDroppedFromDocuments(t *testing.T) {
	f, client := newFakeEngine(t, func(f *fakeEngine) {
		f.override = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("fields") == "uuid,auto_discovered" {
				reply(w, 400, map[string]string{"faultstring": "no field auto_discovered"})
				return true
			}
			return false
		}
		f.nodes = someNodes(1)
	})
	for document, err := range client.Documents(t.Context(), Listing{Collection: []string{"nodes"}, Fields: []string{"auto_discovered"}}) {
		if err != nil {
			t.Errorf("%s, %v", document, err)
		}
	}
	_, _ = client.Document(t.Context(), "show node n", Listing{Collection: []string{"nodes"}, Fields: []string{"auto_discovered"}}, "n")
	want := []string{"GET /v1/", "GET /v1/nodes?fields=uuid%2Cauto_discovered", "GET /v1/nodes?fields=uuid", "GET /v1/nodes/n?fields=uuid"}
	if diff := cmp.Diff(want, f.paths()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
