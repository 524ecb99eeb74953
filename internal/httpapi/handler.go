package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/ingot-metal/ingot/internal/node"
)

// apiHandler answers one request or returns why not. It writes nothing before
// it is sure to succeed, so that the error can still become the answer.
type apiHandler func(w http.ResponseWriter, r *http.Request) error

// call is what the API knows about one request.
type call struct {
	id      string     // request ID, "req-<uuid>"
	version int        // microversion 1.N in force
	base    string     // what links start with, without a slash at the end
	query   url.Values // the query arguments, all of them known to the route
}

type callKey struct{}

// callOf returns the call that the frame put into the request's context.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

func versionOf(r *http.Request) int { return callOf(r).version }

// fail writes err as the answer and logs what people must look at.
func (a *api) fail(w http.ResponseWriter, r *http.Request, c *call, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the client is gone; nobody reads an answer
	}
	shown := statusOf(err)
	if level, ok := logLevel(err, shown.status); ok {
		a.log.LogAttrs(r.Context(), level, "Request failed",
			slog.String("request_id", c.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", shown.status), slog.Any("err", err))
	}
	if seconds := retryAfter(shown.status); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	writeJSON(w, shown.status, shown.body())
}

// logLevel tells how loudly a failed request is logged, if at all. What the
// client did wrong is in its answer, and a limit that holds is no news.
func logLevel(err error, status int) (slog.Level, bool) {
	switch {
	case status == http.StatusInternalServerError:
		return slog.LevelError, true
	case status == http.StatusServiceUnavailable && !errors.Is(err, node.ErrBusy):
		return slog.LevelWarn, true
	}
	return 0, false
}

// jsonContentType is shared by all answers; net/http only reads it.
var jsonContentType = []string{"application/json"}

// writeJSON sends a whole answer. An error means that the client went away.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonContentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// keptBuffer is the largest answer buffer that goes back to the pool, in bytes.
const keptBuffer = 4 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answer builds a body in a pooled buffer and sends it.
func answer(w http.ResponseWriter, status int, build func(dst []byte) []byte) error {
	buffer := buffers.Get().(*[]byte)
	body := build((*buffer)[:0])
	writeJSON(w, status, body)
	if cap(body) <= keptBuffer {
		*buffer = body
		buffers.Put(buffer)
	}
	return nil
}
