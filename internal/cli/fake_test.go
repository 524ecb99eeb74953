package cli

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/ironic"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// answer is what the fake engine says to one request.
type answer struct {
	status int
	body   string
}

// fakeEngine answers "METHOD /path" with the next of its answers; the last one
// repeats. It records what it was asked.
type fakeEngine struct {
	mu      sync.Mutex
	answers map[string][]answer
	asked   []string
	bodies  []string
}

func newFakeEngine(t *testing.T, answers map[string][]answer) (*fakeEngine, *ironic.Client) {
	t.Helper()
	f := &fakeEngine{answers: answers}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	client, err := ironic.New(ironic.Options{Endpoint: server.URL, Microversion: "1.84"})
	if err != nil {
		t.Fatal(err)
	}
	return f, client
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI())
	body, _ := io.ReadAll(r.Body)
	f.bodies = append(f.bodies, strings.TrimSpace(string(body)))
	key := r.Method + " " + r.URL.Path
	queue := f.answers[key]
	reply := answer{404, fault("no such thing")}
	if len(queue) > 0 {
		reply = queue[0]
	}
	if len(queue) > 1 {
		f.answers[key] = queue[1:]
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.status)
	_, _ = w.Write([]byte(reply.body))
}

// fault is an error body as Ironic writes it.
func fault(sentence string) string {
	inner, _ := json.Marshal(map[string]any{"faultcode": "Client", "faultstring": sentence, "debuginfo": nil})
	outer, _ := json.Marshal(map[string]string{"error_message": string(inner)})
	return string(outer)
}

// inState is a node's answer to waiting.
func inState(state, target, lastError string) answer {
	body := map[string]any{"uuid": "u1", "name": "n1", "provision_state": state, "target_provision_state": nil, "last_error": nil}
	if target != "" {
		body["target_provision_state"] = target
	}
	if lastError != "" {
		body["last_error"] = lastError
	}
	text, _ := json.Marshal(body)
	return answer{200, string(text)}
}

// run collects what a command writes.
type run struct{ out, err strings.Builder }

func (r *run) streams() Streams { return Streams{Out: &r.out, Err: &r.err} }

// verb is the command of that name.
func verb(name string) Verb {
	all := Verbs()
	return all[slices.IndexFunc(all, func(v Verb) bool { return v.Name == name })]
}

// given is what flags said: names and values in turns.
func given(pairs ...any) Values {
	var v Values
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i].(string), pairs[i+1])
	}
	return v
}
