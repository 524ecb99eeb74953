//go:build fault

package fault_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// engineCalls are the requests with which operators changed nodes of an engine, in the order of
// their answers. They are safe for concurrent use.
type engineCalls struct {
	mu  sync.Mutex
	all []engineCall
}

// engineCall is a request that the engine has accepted.
type engineCall struct {
	place    string // of the operator
	node     string
	what     string
	from, to time.Time // when it was sent and answered
}

// pass forwards the requests of the operator at a place to the engine. While the engine is dead, it
// cuts connections.
func (c *engineCalls) pass(place string, engine *url.URL) http.Handler {
	pass := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(engine) },
		Transport:    &http.Transport{MaxIdleConnsPerHost: 64},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &statusWriter{ResponseWriter: w}
		pass.ServeHTTP(answer, r)
		_, path, ofNode := strings.Cut(r.URL.Path, "/v1/nodes/")
		if ofNode && r.Method != http.MethodGet && answer.status < http.StatusMultipleChoices {
			node, what, _ := strings.Cut(path, "/")
			c.note(engineCall{place, node, strings.TrimSpace(r.Method + " " + what), began, time.Now()})
		}
	})
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (c *engineCalls) note(call engineCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

// shared returns the requests with which an operator changed a node after another operator had
// taken over the node.
func (c *engineCalls) shared() (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	firsts := map[string][]engineCall{} // of each operator, by node
	for _, call := range c.all {
		known := firsts[call.node]
		if !slices.ContainsFunc(known, func(first engineCall) bool { return first.place == call.place }) {
			firsts[call.node] = append(known, call)
			continue
		}
		if last := known[len(known)-1]; last.place != call.place && call.from.After(last.to) {
			found = append(found, fmt.Sprintf("node %s: %s of the operator %s at %s, after the one %s had taken it over with %s at %s",
				call.node, call.what, call.place, call.from.Format(clockTime), last.place, last.what, last.to.Format(clockTime)))
		}
	}
	return found
}

func TestNodeThatTwoOperatorsChangeIsFound(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	c := &engineCalls{all: []engineCall{
		{"here", "a", "PUT", at(1), at(2)},
		{"there", "a", "PATCH", at(4), at(5)},
		{"here", "a", "PATCH", at(3), at(6)}, // its release of the node, which was answered late
		{"there", "b", "PUT", at(7), at(8)},
		{"there", "a", "PUT", at(9), at(10)},
	}}
	if got := c.shared(); len(got) != 0 {
		t.Errorf("found %q in a move", got)
	}
	c.note(engineCall{"here", "a", "DELETE", at(11), at(12)})
	if got := c.shared(); len(got) != 1 || !strings.Contains(got[0], "DELETE of the operator here") {
		t.Errorf("found %q, want the deletion of the former one", got)
	}
}
