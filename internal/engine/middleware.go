package engine

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/auth"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/telemetry"
)

// publicRoutes are the patterns that answer without credentials: clients learn
// there which API this is, probes learn whether it works, and ramdisks, which have
// no password, report their machine. Package agent limits what ramdisks can do.
var publicRoutes = map[string]bool{
	"/{$}":                    true,
	"/v1":                     true,
	"/healthcheck":            true,
	"/v1/lookup":              true,
	"/v1/heartbeat/{ident}":   true,
	"/v1/continue_inspection": true,
}

func isPublic(pattern string) bool { return publicRoutes[pattern] }

// How many lines of the access log requests without credentials may cause in a second,
// lasting, and at once.
const (
	anonymousLines       = 20
	anonymousLinesAtOnce = 2000
)

// middleware is what a request passes before the API handles it: TLS,
// authentication, metrics and the access log. The zero value lets everything
// through.
type middleware struct {
	tls      *tls.Config         // nil means plain http
	guard    *auth.Guard         // nil means no authentication
	metrics  *telemetry.Metrics  // nil means no metrics
	requests *telemetry.Requests // nil means neither metrics nor access log
}

func newMiddleware(cfg APIConfig, log *slog.Logger, now func() time.Time) (*middleware, error) {
	m := &middleware{}
	if cfg.MetricsListen != "" {
		m.metrics = telemetry.New()
	}
	if cfg.tls() {
		pair, err := newPair(cfg, log, now)
		if err != nil {
			return nil, err
		}
		m.tls = newTLS(pair)
		if m.metrics != nil {
			m.metrics.WatchCertificate(func() time.Time { return pair.Get().Leaf.NotAfter })
		}
	}
	if cfg.Auth == authHTTPBasic {
		var err error
		m.guard, err = auth.New(cfg.HtpasswdFile, auth.Options{
			Public: isPublic, Logger: log, Now: now,
		})
		if err != nil {
			return nil, err
		}
	}
	if m.metrics != nil || cfg.AccessLog {
		m.requests = &telemetry.Requests{Metrics: m.metrics, User: auth.User, Now: now}
		if cfg.AccessLog {
			m.requests.AccessLog = log
			m.requests.AnonymousLog = loglimit.New(log, anonymousLines, anonymousLinesAtOnce)
			m.requests.Public = isPublic
		}
	}
	cfg.warn(log)
	return m, nil
}

// warn says what the configuration permits although it is dangerous.
func (a APIConfig) warn(log *slog.Logger) {
	for _, address := range []string{a.Listen, a.MetricsListen} {
		switch {
		case !isOpen(address):
		case a.Auth != authHTTPBasic:
			log.Warn("No authentication: everybody who reaches this address is an administrator", "address", address)
		case !a.tls():
			log.Warn("No TLS: passwords cross the network in plain text unless something before the engine encrypts", "address", address)
		}
	}
}

// route wraps the handler of one route: authentication depends on the route.
func (m *middleware) route(next http.Handler) http.Handler {
	if m.requests != nil {
		next = m.requests.RecordUser(next)
	}
	if m.guard != nil {
		next = m.guard.Wrap(next)
	}
	if m.requests != nil {
		next = m.requests.RecordRoute(next)
	}
	return next
}

// api wraps the whole API.
func (m *middleware) api(api http.Handler) http.Handler {
	if m.requests == nil {
		return api
	}
	return m.requests.Observe(api)
}

// metricsHandler serves the metrics, behind the same authentication as the API:
// they are about the same machines.
func (m *middleware) metricsHandler() http.Handler {
	handler := m.metrics.Handler()
	if m.guard != nil {
		handler = m.guard.Wrap(handler)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	return mux
}
