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
	"github.com/ingot-metal/ingot/internal/role"
)

// apiHandler answers one request or returns an error. It writes nothing before it is
// certain to succeed, so that the error can still be the answer.
type apiHandler func(w http.ResponseWriter, r *http.Request) error

// call has what the API derives from one request.
type call struct {
	id      string     // request ID, "req-<uuid>"
	version int        // negotiated microversion 1.N
	base    string     // beginning of all links, without a trailing slash
	query   url.Values // query arguments; the route knows all of them
	role    role.Role  // of the user; None on a public route
}

type callKey struct{}

// callOf returns the call that the middleware put into the context of the request.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

func versionOf(r *http.Request) int { return callOf(r).version }

// How many lines about failed requests of public routes go to the log, each second and at once.
// Anybody can send such requests while the database is not available.
const (
	failuresASecond = 1
	failuresAtOnce  = 100
)

// requestFailed is the log message for a request that a person should know of.
const requestFailed = "Request failed"

// writeError answers with err, and logs it when a person should know of it.
func (a *api) writeError(w http.ResponseWriter, r *http.Request, c *call, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return // the client is gone; nobody reads an answer
	}
	shown := statusOf(err)
	if level, ok := logLevel(err, shown.status); ok {
		attrs := []slog.Attr{
			slog.String("request_id", c.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", shown.status), slog.Any("err", err),
		}
		if c.role == role.None {
			a.failures.Log(a.now(), level, requestFailed, attrs...)
		} else {
			a.log.LogAttrs(r.Context(), level, requestFailed, attrs...)
		}
	}
	if seconds := retryAfter(shown.status); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	writeJSON(w, shown.status, shown.body())
}

// logLevel returns the level at which to log a failed request, and whether to log it at all. The
// client reads its own mistakes in the answer, and a reached limit is expected.
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

// writeJSON sends a whole answer. A failed write means that the client is gone.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonContentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// maxPooledBuffer is the largest buffer that is returned to the pool, in bytes.
const maxPooledBuffer = 4 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// answer builds a body in a pooled buffer and sends it.
func answer(w http.ResponseWriter, status int, build func(dst []byte) []byte) error {
	return withBuffer(build, func(body []byte) error {
		writeJSON(w, status, body)
		return nil
	})
}

// withBuffer builds a body in a pooled buffer, which is in use until use returns.
func withBuffer(build func(dst []byte) []byte, use func(body []byte) error) error {
	buffer := buffers.Get().(*[]byte)
	body := build((*buffer)[:0])
	err := use(body)
	if cap(body) <= maxPooledBuffer {
		*buffer = body
		buffers.Put(buffer)
	}
	return err
}
