package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/ingot-metal/ingot/internal/node"
)

// exchange is a request of a real ironic-python-agent 9.11.0 with an answer that it
// accepted.
type exchange struct {
	Method, Path string
	Headers      map[string]string
	Body         json.RawMessage
	Answer       struct {
		Status int
		Body   map[string]any
	}
}

// TestReplayedAgentGetsTheAnswersThatItExpects replays the requests of a real agent in
// order, and compares the status and every key of the answers.
func TestReplayedAgentGetsTheAnswersThatItExpects(t *testing.T) {
	const uuid = "7fd54a0b-7b17-4c0b-8b0f-0a8a7a4a1c11"
	text, err := os.ReadFile("testdata/ironic-python-agent-9.11.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var exchanges []exchange
	if err := json.Unmarshal(text, &exchanges); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.addNode(uuid)
	s.engine.answer = lookupAnswer(secretToken)
	s.engine.answer.Node.UUID = uuid
	for _, e := range exchanges {
		r := httptest.NewRequest(e.Method, e.Path, bytes.NewReader(e.Body))
		for name, value := range e.Headers {
			r.Header.Set(name, value)
		}
		if string(e.Body) == "null" {
			r.ContentLength = 0
		}
		got := s.send(r).want(e.Answer.Status)
		if e.Answer.Body == nil {
			if got.body != "" {
				t.Errorf("%s: got body %s, want none", got.what, got.body)
			}
			continue
		}
		sameKeys(t, got.what, e.Answer.Body, got.json())
	}
	want := []node.Heartbeat{{
		CallbackURL: "http://127.0.0.1:9999", AgentVersion: "9.11.0",
		AgentToken: "recorded-token-0123456789-abcdefghijklmnop",
	}}
	diffJSON(t, "heartbeat", want, s.engine.beats)
}

// sameKeys reports the keys of want, at any depth, that got lacks.
func sameKeys(t *testing.T, what string, want, got map[string]any) {
	t.Helper()
	for key, value := range want {
		there, ok := got[key]
		if !ok {
			t.Errorf("%s: the answer has no %q", what, key)
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			gotInner, _ := there.(map[string]any)
			sameKeys(t, what+" "+key, inner, gotInner)
		}
	}
}
