package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
)

// exposedHeaders is what a browser may let scripts of other origins read.
const exposedHeaders = "X-OpenStack-Ironic-API-Version, X-OpenStack-Ironic-API-Minimum-Version, " +
	"X-OpenStack-Ironic-API-Maximum-Version, OpenStack-Request-Id, X-OpenStack-Request-Id"

var (
	minVersionValue = []string{versionText[minVersion]}
	maxVersionValue = []string{versionText[maxVersion]}
	varyValue       = []string{"OpenStack-API-Version, X-OpenStack-Ironic-API-Version"}
)

// frame is around every request: headers that every answer has, the path in its
// one form, negotiation, the log line, and a panic becoming a 500.
func (a *api) frame(router http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{id: "req-" + uuid.NewString(), version: minVersion, base: a.baseURL(r)}
		setHeaders(w.Header(), r, c.id)
		if a.log.Enabled(r.Context(), slog.LevelDebug) {
			recorded := &statusRecorder{ResponseWriter: w}
			w = recorded
			defer a.logRequest(r, c, recorded, a.now())
		}
		defer a.recovered(w, r, c)
		err := checkOrigin(origins, r)
		if err == nil {
			err = a.serve(w, r, c, router)
		}
		if err != nil {
			a.fail(w, r, c, err)
		}
	})
}

// recovered makes a panic of this request a 500, and lets the library's own way
// to abort an answer pass.
func (a *api) recovered(w http.ResponseWriter, r *http.Request, c *call) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	a.fail(w, r, c, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
}

// checkOrigin refuses what a web page of another site lets a browser send. An
// engine on loopback asks nobody for a password, so this is all that stands
// between such a page and the machines. Other clients send no such headers.
func checkOrigin(origins *http.CrossOriginProtection, r *http.Request) error {
	if err := origins.Check(r); err != nil {
		return &node.ForbiddenError{Reason: "Requests from web pages of another origin are refused."}
	}
	return nil
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, c *call, router http.Handler) error {
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	canonicalPath(r)
	if versioned(r.URL.Path) {
		version, err := negotiate(r.Header)
		if err != nil {
			return err
		}
		c.version = version
	}
	w.Header()[versionHeader] = []string{versionText[c.version]}
	router.ServeHTTP(w, r)
	return nil
}

func setHeaders(h http.Header, r *http.Request, requestID string) {
	h[minVersionHeader] = minVersionValue
	h[maxVersionHeader] = maxVersionValue
	id := []string{requestID}
	h["Openstack-Request-Id"] = id
	h["X-Openstack-Request-Id"] = id
	h["Vary"] = varyValue
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if r.Header.Get("Origin") != "" {
		h.Set("Access-Control-Expose-Headers", exposedHeaders)
	}
}

// versioned reports whether microversions mean something on a path. The root
// document is how clients find out about them, so it accepts any.
func versioned(urlPath string) bool { return urlPath != "/" && urlPath != healthPath }

// canonicalPath gives the request the one path its resource has: without a
// slash at the end or in double, and with the /v1 that bookmark links lack.
func canonicalPath(r *http.Request) {
	asked := r.URL.EscapedPath()
	clean := path.Clean("/" + asked)
	if clean != "/" && clean != healthPath && clean != "/v1" && !strings.HasPrefix(clean, "/v1/") {
		clean = "/v1" + clean
	}
	if clean == asked {
		return
	}
	plain, err := url.PathUnescape(clean)
	if err != nil { // cleaning keeps the escapes, and they were parsed before
		return
	}
	u := *r.URL
	u.Path, u.RawPath = plain, clean
	r.URL = &u
}

// baseURL is what links in this answer start with.
func (a *api) baseURL(r *http.Request) string {
	if a.options.PublicURL != "" {
		return strings.TrimSuffix(strings.TrimSuffix(a.options.PublicURL, "/"), "/v1")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// statusRecorder remembers the status for the log line.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (a *api) logRequest(r *http.Request, c *call, w *statusRecorder, start time.Time) {
	a.log.LogAttrs(r.Context(), slog.LevelDebug, "Request",
		slog.String("request_id", c.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.String("version", versionText[c.version]), slog.Int("status", w.status),
		slog.Duration("duration", a.now().Sub(start)))
}
