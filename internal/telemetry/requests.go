package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Values of labels for what has no value of its own.
const (
	// unmatched is the route of requests that no route answers: the path is
	// unknown, or the request was refused before its route was looked up.
	unmatched = "unmatched"
	// otherMethod is any method that HTTP does not define. Clients may make up
	// as many as they like.
	otherMethod = "other"
)

// statusGone stands for the status of a request whose client went away before
// the answer, as proxies write it.
const statusGone = 499

// maxPath is how much of a path an access log line has, in bytes.
const maxPath = 256

// methods are those that get a label of their own.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}

// Requests watches the requests of the API. Around goes outside everything;
// Route inside the router, because only it knows which route a request takes;
// Named inside authentication, because only it knows who asks.
type Requests struct {
	// Metrics gets the figures; nil means none.
	Metrics *Metrics
	// AccessLog gets a line per request at level info; nil means none.
	AccessLog *slog.Logger
	// User returns who was authenticated for a request; required.
	User func(context.Context) string
	// Now is the clock; required.
	Now func() time.Time
}

// seen is what the layers inside find out about one request.
type seen struct{ route, user string }

type seenKey struct{}

func seenOf(r *http.Request) *seen {
	s, _ := r.Context().Value(seenKey{}).(*seen)
	return s
}

// Route notes the pattern that the router matched.
func (q *Requests) Route(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := seenOf(r); s != nil {
			s.route = routeLabel(r.Pattern)
		}
		next.ServeHTTP(w, r)
	})
}

// routeLabel takes from a pattern what only the library means by it.
func routeLabel(pattern string) string {
	if pattern == "/" { // the pattern of everything that no other one matches
		return unmatched
	}
	return strings.TrimSuffix(pattern, "{$}")
}

// Named notes who asks.
func (q *Requests) Named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s := seenOf(r); s != nil {
			s.user = q.User(r.Context())
		}
		next.ServeHTTP(w, r)
	})
}

// Around counts, times and logs every request to next.
func (q *Requests) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &seen{route: unmatched}
		recorder := &recorder{ResponseWriter: w}
		began := q.Now()
		if q.Metrics != nil {
			q.Metrics.inFlight.Inc()
			defer q.Metrics.inFlight.Dec()
		}
		completed := false
		defer func() { // also when the answer is aborted by a panic, which goes on
			status := recorder.status
			if status == 0 && completed && r.Context().Err() == nil {
				status = http.StatusOK // what the library sends when nothing was written
			}
			q.record(r, s, recorder, status, q.Now().Sub(began))
		}()
		next.ServeHTTP(recorder, r.WithContext(context.WithValue(r.Context(), seenKey{}, s)))
		completed = true
	})
}

func (q *Requests) record(r *http.Request, s *seen, w *recorder, status int, took time.Duration) {
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
	if q.AccessLog != nil {
		path := r.URL.Path // without the query
		if len(path) > maxPath {
			path = path[:maxPath] + "…"
		}
		q.AccessLog.LogAttrs(r.Context(), slog.LevelInfo, "Request answered",
			slog.String("request_id", w.Header().Get("Openstack-Request-Id")),
			slog.String("user", s.user), slog.String("remote", r.RemoteAddr),
			slog.String("method", method), slog.String("path", path), slog.String("route", s.route),
			slog.Int("status", status), slog.Int64("bytes", w.bytes), slog.Duration("duration", took))
	}
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0 until it was written
	bytes  int64
}

// WriteHeader remembers the final status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the body.
func (w *recorder) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the library's own writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
