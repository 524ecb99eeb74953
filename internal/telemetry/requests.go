package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/loglimit"
)

// Label values for requests that have no value of their own.
const (
	// unmatched is the route of requests that no route handles: the path is unknown, or the request
	// was refused before its route was looked up.
	unmatched = "unmatched"
	// otherMethod stands for all methods that HTTP does not define, because clients can invent any
	// number of them.
	otherMethod = "other"
)

// statusGone is the status of a request whose client closed the connection before the answer.
// Proxies log the same status.
const statusGone = 499

// maxPath is the most that an access log line has of a path, in bytes.
const maxPath = 256

// methods are the methods that have their own label value.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}

// Requests counts, times and logs the requests of the API. Its three middlewares work together:
// Observe wraps the whole API. RecordRoute wraps each route inside the router, which knows the
// pattern. RecordUser is inside authentication, which knows the user; without authentication it
// stands alone.
type Requests struct {
	// Metrics counts requests; nil means no metrics.
	Metrics *Metrics
	// AccessLog gets a line per request at level info; nil means none.
	AccessLog *slog.Logger
	// AnonymousLog gets the lines of requests that anybody can send; nil means AccessLog.
	AnonymousLog *loglimit.Logger
	// User returns the authenticated user of a request; required.
	User func(context.Context) string
	// Now is the clock; required.
	Now func() time.Time
}

// labels are the values that the inner middlewares set for one request.
type labels struct {
	route, user string
	anonymous   bool // the request was not authenticated, so anybody can send such requests
}

type labelsKey struct{}

func labelsOf(r *http.Request) *labels {
	s, _ := r.Context().Value(labelsKey{}).(*labels)
	return s
}

// RecordRoute records the pattern that the router matched.
func (q *Requests) RecordRoute(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := labelsOf(r); s != nil {
			s.route = routeLabel(r.Pattern)
		}
		next.ServeHTTP(w, r)
	})
}

// routeLabel returns a pattern of the router without its syntax for special cases.
func routeLabel(pattern string) string {
	if pattern == "/" { // the pattern for everything that no other pattern matches
		return unmatched
	}
	return strings.TrimSuffix(pattern, "{$}")
}

// RecordUser records the authenticated user of the request.
func (q *Requests) RecordUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := labelsOf(r); s != nil {
			s.user, s.anonymous = q.User(r.Context()), false
		}
		next.ServeHTTP(w, r)
	})
}

// Observe counts, times and logs every request to next.
func (q *Requests) Observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &labels{route: unmatched, anonymous: true}
		response := &responseWriter{ResponseWriter: w}
		began := q.Now()
		if q.Metrics != nil {
			q.Metrics.inFlight.Inc()
			defer q.Metrics.inFlight.Dec()
		}
		completed := false
		defer func() { // also if a panic aborts the answer; the panic then continues
			status := response.status
			if status == 0 && completed && r.Context().Err() == nil {
				status = http.StatusOK // the library sends this when nothing was written
			}
			q.report(r, s, response, status, q.Now().Sub(began))
		}()
		next.ServeHTTP(response, r.WithContext(context.WithValue(r.Context(), labelsKey{}, s)))
		completed = true
	})
}

func (q *Requests) report(r *http.Request, s *labels, w *responseWriter, status int, took time.Duration) {
	if status == 0 {
		status = statusGone
	}
	method := r.Method
	if !methods[method] {
		method = otherMethod
	}
	if q.Metrics != nil {
		q.Metrics.requests.WithLabelValues(s.route, method, strconv.Itoa(status)).Inc()
		q.Metrics.durations.WithLabelValues(s.route, method).Observe(took.Seconds())
	}
	if q.AccessLog == nil {
		return
	}
	path := r.URL.Path // without the query
	if len(path) > maxPath {
		path = path[:maxPath] + "…"
	}
	line := []slog.Attr{
		slog.String("request_id", w.Header().Get("Openstack-Request-Id")),
		slog.String("user", s.user), slog.String("remote", r.RemoteAddr),
		slog.String("method", method), slog.String("path", path), slog.String("route", s.route),
		slog.Int("status", status), slog.Int64("bytes", w.bytes), slog.Duration("duration", took),
	}
	if q.AnonymousLog != nil && s.anonymous {
		q.AnonymousLog.Log(q.Now(), slog.LevelInfo, answered, line...)
		return
	}
	q.AccessLog.LogAttrs(r.Context(), slog.LevelInfo, answered, line...)
}

// answered is the message of a line of the access log.
const answered = "Request answered"

// responseWriter remembers the status and size of the answer.
type responseWriter struct {
	http.ResponseWriter
	status int // 0 until it was written
	bytes  int64
}

// WriteHeader remembers the final status.
func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the body.
func (w *responseWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the wrapped writer.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
