package engine

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/auth"
	"github.com/ingot-metal/ingot/internal/telemetry"
)

// publicRoutes are the patterns that answer without credentials. Clients find
// out there which API this is, probes whether it works, and machines that run
// the ramdisk, which have no password, speak for themselves. Package agent
// limits what those can do.
var publicRoutes = map[string]bool{
	"/{$}":                    true,
	"/v1":                     true,
	"/healthcheck":            true,
	"/v1/lookup":              true,
	"/v1/heartbeat/{ident}":   true,
	"/v1/continue_inspection": true,
}

// front is what stands between the network and the API: TLS, authentication, and
// who watches requests. The zero value lets everything through.
type front struct {
	tls      *tls.Config // nil means plain http
	guard    *auth.Guard // nil means that nobody is asked
	metrics  *telemetry.Metrics
	requests *telemetry.Requests // nil when nobody watches
}

func newFront(cfg APIConfig, log *slog.Logger, now func() time.Time) (*front, error) {
	f := &front{}
	if cfg.MetricsListen != "" {
		f.metrics = telemetry.New()
	}
	if cfg.tls() {
		pair, err := newPair(cfg, log, now)
		if err != nil {
			return nil, err
		}
		f.tls = newTLS(pair)
		if f.metrics != nil {
			f.metrics.WatchCertificate(func() time.Time { return pair.Get().Leaf.NotAfter })
		}
	}
	if cfg.Auth == authHTTPBasic {
		var err error
		f.guard, err = auth.New(cfg.HtpasswdFile, auth.Options{
			Public: func(pattern string) bool { return publicRoutes[pattern] }, Logger: log, Now: now,
		})
		if err != nil {
			return nil, err
		}
	}
	if f.metrics != nil || cfg.AccessLog {
		f.requests = &telemetry.Requests{Metrics: f.metrics, User: auth.User, Now: now}
		if cfg.AccessLog {
			f.requests.AccessLog = log
		}
	}
	cfg.warn(log)
	return f, nil
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

// inside goes around every route's handler.
func (f *front) inside(next http.Handler) http.Handler {
	if f.requests != nil {
		next = f.requests.Named(next)
	}
	if f.guard != nil {
		next = f.guard.Wrap(next)
	}
	if f.requests != nil {
		next = f.requests.Route(next)
	}
	return next
}

// outside goes around the whole API.
func (f *front) outside(api http.Handler) http.Handler {
	if f.requests == nil {
		return api
	}
	return f.requests.Around(api)
}

// metricsHandler shows the figures, behind the same authentication as the API:
// they are about the same machines.
func (f *front) metricsHandler() http.Handler {
	handler := f.metrics.Handler()
	if f.guard != nil {
		handler = f.guard.Wrap(handler)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	return mux
}
