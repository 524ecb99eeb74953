package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/node"
)

// recordedToken is the token of the recorded agent.
const recordedToken = "recorded-token-0123456789-abcdefghijklmnop"

// exchange is one request to the recorded agent with its answer.
type exchange struct {
	Direction string          `json:"direction"`
	What      string          `json:"what"`
	Method    string          `json:"method"`
	Path      string          `json:"path"`
	Body      json.RawMessage `json:"body"`
	Answer    struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"answer"`
}

// recording returns the requests of an engine to a real ironic-python-agent 9.11.0.
func recording(t *testing.T) []exchange {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "sim", "agent", "testdata", "ironic-python-agent-9.11.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []exchange
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e exchange) bool { return e.Direction != "engine to agent" })
}

// recorded returns the exchange of that name.
func recorded(t *testing.T, what string) exchange {
	t.Helper()
	all := recording(t)
	i := slices.IndexFunc(all, func(e exchange) bool { return e.What == what })
	if i < 0 {
		t.Fatalf("nothing was recorded of %q", what)
	}
	return all[i]
}

// nodeAt is a node whose agent is called at url.
func nodeAt(url, token, ca string) *node.Node {
	return &node.Node{UUID: "n1", DriverInternalInfo: node.ObjectOf(map[string]any{
		agent.URLKey: url, agent.TokenKey: token, agent.VerifyCAKey: ca,
	})}
}

// replay serves one recorded exchange and checks the request for it.
func replay(t *testing.T, e exchange) *node.Node {
	t.Helper()
	return nodeAt(serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if got := r.Method + " " + r.URL.RequestURI(); r.Method != e.Method || r.URL.Path != strings.Split(e.Path, "?")[0] {
			t.Errorf("asked for %s, the recorded engine for %s %s", got, e.Method, e.Path)
		}
		if got := r.URL.Query().Get("agent_token"); got != recordedToken {
			t.Errorf("the token is %q", got)
		}
		if len(e.Body) > 0 && string(e.Body) != "null" {
			var got, want struct {
				Name   string
				Params map[string]any
			}
			if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal(e.Body, &want)); err != nil || got.Name != want.Name || got.Params == nil {
				t.Errorf("sent %s, the recorded engine %s", body, e.Body)
			}
		}
		w.WriteHeader(e.Answer.Status)
		_, _ = w.Write(e.Answer.Body)
	}), recordedToken, "")
}

func TestRecordedAnswersToCommandsAreUnderstood(t *testing.T) {
	for _, tc := range []struct {
		what, command string
		wait          bool
		want          agent.CommandStatus
		reason        string // of the command
		failure       string // of the call
	}{
		{what: "clean steps, waiting", command: "clean.get_clean_steps", wait: true, want: agent.CommandSucceeded},
		{what: "get_partition_uuids", command: "standby.get_partition_uuids", wait: true, want: agent.CommandSucceeded},
		{what: "bad params", command: "clean.execute_clean_step", wait: true, want: agent.CommandFailed, reason: "missing 3 required positional arguments"},
		{what: "step that does not exist, not waiting", command: "clean.execute_clean_step", want: agent.CommandRunning},
		{what: "unknown extension", command: "nosuch.thing", wait: true, failure: "Extension with id nosuch not found"},
		{what: "unknown command", command: "clean.nosuch", wait: true, failure: "Unknown command: nosuch"},
		{what: "prepare_image without image_info", command: "standby.prepare_image", wait: true, failure: "missing 'id' field"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			got, err := New(agent.Rules{}).Execute(t.Context(), replay(t, recorded(t, tc.what)), tc.command, nil, tc.wait)
			var refused *node.DriverError
			switch {
			case tc.failure != "":
				if !errors.As(err, &refused) || !refused.Refused || !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("got %v, want a refusal with %q", err, tc.failure)
				}
			case err != nil || got.Status != tc.want || got.ID == "" || !strings.Contains(got.Reason(), tc.reason):
				t.Errorf("got %+v, %v, want status %s and the reason %q", got, err, tc.want, tc.reason)
			}
		})
	}
}

func TestRecordedListOfCommandsIsUnderstood(t *testing.T) {
	got, err := New(agent.Rules{}).Commands(t.Context(), replay(t, recorded(t, "all commands while one may run")))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got[:3] {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"get_clean_steps", "get_deploy_steps", "get_service_steps"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestErrorsSayWhetherTheAgentMayHaveBegun has calls fail before and after the agent got
// the command.
func TestErrorsSayWhetherTheAgentMayHaveBegun(t *testing.T) {
	own, other := newPair(t, nil), newPair(t, nil)
	reached := serve(t, &own, says(http.StatusOK, `{}`))
	hangsUp := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	for name, tc := range map[string]struct {
		n                  *node.Node
		refused, retryable bool
	}{
		"no heartbeat yet":     {nodeAt("", recordedToken, ""), true, true},
		"nobody listens":       {nodeAt("http://127.0.0.1:1", recordedToken, ""), true, true},
		"not permitted":        {nodeAt("ftp://127.0.0.1", recordedToken, ""), true, false},
		"another certificate":  {nodeAt(reached, recordedToken, other.pem()), true, false},
		"busy":                 {nodeAt(serve(t, nil, says(http.StatusConflict, `{"faultstring":"Agent is busy"}`)), recordedToken, ""), true, true},
		"wrong token":          {nodeAt(serve(t, nil, says(http.StatusUnauthorized, `{}`)), recordedToken, ""), true, false},
		"hangs up":             {nodeAt(serve(t, nil, hangsUp), recordedToken, ""), false, true},
		"breaks down":          {nodeAt(serve(t, nil, says(http.StatusInternalServerError, `{}`)), recordedToken, ""), false, true},
		"answers what is none": {nodeAt(serve(t, nil, says(http.StatusOK, `<html>`)), recordedToken, ""), false, false},
		"answers too much":     {nodeAt(serve(t, nil, says(http.StatusOK, `{"id":"`+strings.Repeat("x", maxCommand)+`"}`)), recordedToken, ""), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(agent.Rules{}).Execute(t.Context(), tc.n, "standby.sync", nil, false)
			var failure *node.DriverError
			if !errors.As(err, &failure) || failure.Refused != tc.refused || failure.Retryable != tc.retryable {
				t.Errorf("got %+v (%v), want refused %v, retryable %v", failure, err, tc.refused, tc.retryable)
			}
			if err != nil && strings.Contains(err.Error(), recordedToken) {
				t.Errorf("the error has the token: %v", err)
			}
			if _, err := New(agent.Rules{}).Commands(t.Context(), tc.n); errors.As(err, &failure) && !failure.Refused {
				t.Errorf("the list: %v may have changed something", err)
			}
		})
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	url := serve(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := New(agent.Rules{}).Execute(ctx, nodeAt(url, "", ""), "standby.sync", nil, true); err == nil {
		t.Error("it was answered")
	}
}

// TestListOfTooManyCommandsIsRefused has an agent fill a small answer with commands that take
// much more room once they are decoded.
func TestListOfTooManyCommandsIsRefused(t *testing.T) {
	for count, want := range map[int]string{maxListed: "", maxListed + 1: "more than"} {
		url := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"commands":[`+strings.TrimSuffix(strings.Repeat(`{},`, count), ",")+`]}`)
		})
		list, err := New(agent.Rules{}).Commands(t.Context(), nodeAt(url, recordedToken, ""))
		switch {
		case want == "" && (err != nil || len(list) != count):
			t.Errorf("%d commands: %d, %v", count, len(list), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%d commands: %v, want %q in it", count, err, want)
		}
	}
}

// TestListOfCommandsIsReadWhateverTheirStepsWereGiven has an agent list what it was given for two
// deployments with large config drives.
func TestListOfCommandsIsReadWhateverTheirStepsWereGiven(t *testing.T) {
	step := `{"id":"c1","command_status":"SUCCEEDED","command_result":{"deploy_step":{"args":{"configdrive":"` + strings.Repeat("x", 9<<20) + `"}},"deploy_result":"done"}}`
	url := serve(t, nil, says(http.StatusOK, `{"commands":[`+step+`,`+step+`]}`))
	list, err := New(agent.Rules{}).Commands(t.Context(), nodeAt(url, recordedToken, ""))
	if err != nil || len(list) != 2 || list[1].ID != "c1" || list[1].Status != agent.CommandSucceeded {
		t.Fatalf("got %d commands, %v", len(list), err)
	}
	var result struct {
		Result string `json:"deploy_result"`
	}
	if err := json.Unmarshal(list[1].Result, &result); err != nil || result.Result != "done" {
		t.Errorf("the result is %q, %v", result.Result, err)
	}
}

func TestStringsAreShortenedBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{
		`{"abcd":[1234,"abc","abcd"]}`: `{"abc":[1234,"abc","abc"]}`,
		`["ab\u00e4c","x"]`:            `["ab\u00e4","x"]`,
		`["abc\u00e4","x"]`:            `["abc","x"]`,
		`["ab\"c","a\\\\","x"]`:        `["ab\"","a\\","x"]`,
		`["abc\"\\","x"]`:              `["abc","x"]`,
		`["abc`:                        `["abc`,
	} {
		for name, reader := range map[string]io.Reader{"at once": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text))} {
			if got, err := io.ReadAll(&shortener{from: reader, most: 3}); string(got) != want || err != nil {
				t.Errorf("%s, %s: %s, %v, want %s", text, name, got, err, want)
			}
		}
	}
}
