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

// exposedHeaders are the headers that scripts of other origins may read in a browser.
const exposedHeaders = "X-OpenStack-Ironic-API-Version, X-OpenStack-Ironic-API-Minimum-Version, " +
	"X-OpenStack-Ironic-API-Maximum-Version, OpenStack-Request-Id, X-OpenStack-Request-Id"

var (
	minVersionValue = []string{versionText[minVersion]}
	maxVersionValue = []string{versionText[maxVersion]}
	varyValue       = []string{"OpenStack-API-Version, X-OpenStack-Ironic-API-Version"}
)

// middleware wraps the router. It sets the common headers, normalizes the path,
// negotiates the version, writes the log line and turns a panic into a 500.
func (a *api) middleware(router http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{id: "req-" + uuid.NewString(), version: minVersion, base: a.baseURL(r)}
		setHeaders(w.Header(), r, c.id)
		if a.log.Enabled(r.Context(), slog.LevelDebug) {
			logged := &statusWriter{ResponseWriter: w}
			w = logged
			defer a.logRequest(r, c, logged, a.now())
		}
		defer a.recovered(w, r, c)
		err := a.checkOrigin(origins, r)
		if err == nil {
			err = a.serve(w, r, c, router)
		}
		if err != nil {
			a.writeError(w, r, c, err)
		}
	})
}

// recovered turns a panic of this request into a 500. It does not stop http.ErrAbortHandler, with
// which net/http aborts an answer.
func (a *api) recovered(w http.ResponseWriter, r *http.Request, c *call) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	a.writeError(w, r, c, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
}

// checkOrigin refuses requests that a web page of another site makes a browser send. An engine on
// loopback needs no password, so only this check protects it from such pages. Clients other than
// browsers do not send the headers that it checks. CheckHost refuses a page whose own host name has
// been made to resolve to this machine: that page has the same origin, but names a foreign host.
func (a *api) checkOrigin(origins *http.CrossOriginProtection, r *http.Request) error {
	if a.options.CheckHost != nil {
		if err := a.options.CheckHost(r.Host); err != nil {
			return err
		}
	}
	if err := origins.Check(r); err != nil {
		return &node.ForbiddenError{Reason: "Requests from web pages of another origin are refused."}
	}
	return nil
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, c *call, router http.Handler) error {
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	canonicalPath(r)
	if strings.HasPrefix(r.URL.Path, ownPrefix) {
		c.version = maxVersion
	} else if versioned(r.URL.Path) {
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

// versioned reports whether a path depends on the microversion. Clients learn the supported
// versions from the root document, so that document accepts every version header.
func versioned(urlPath string) bool { return urlPath != "/" && urlPath != healthPath }

// canonicalPath rewrites the path of the request to the canonical path of its resource. It removes
// trailing and double slashes and adds the /v1 that bookmark links lack.
func canonicalPath(r *http.Request) {
	asked := r.URL.EscapedPath()
	clean := path.Clean("/" + asked)
	if clean != "/" && clean != healthPath && clean != "/v1" && !strings.HasPrefix(clean, "/v1/") && !strings.HasPrefix(clean, ownPrefix) {
		clean = "/v1" + clean
	}
	if clean == asked {
		return
	}
	plain, err := url.PathUnescape(clean)
	if err != nil { // path.Clean keeps the escapes, which were parsed before
		return
	}
	u := *r.URL
	u.Path, u.RawPath = plain, clean
	r.URL = &u
}

// baseURL returns the beginning of all links in the answer.
func (a *api) baseURL(r *http.Request) string {
	if a.options.PublicURL != "" {
		return strings.TrimSuffix(strings.TrimSuffix(a.options.PublicURL, "/"), "/v1")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// statusWriter keeps the status for the log line.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController set deadlines of the connection.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (a *api) logRequest(r *http.Request, c *call, w *statusWriter, start time.Time) {
	a.log.LogAttrs(r.Context(), slog.LevelDebug, "Request",
		slog.String("request_id", c.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.String("version", versionText[c.version]), slog.Int("status", w.status),
		slog.Duration("duration", a.now().Sub(start)))
}
