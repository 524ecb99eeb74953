package engine

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/auth"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/role"
	"github.com/ingot-metal/ingot/internal/telemetry"
)

// anonymousLines and anonymousLinesAtOnce limit the lines of the access log about requests without
// credentials, per second in the long run and in a burst.
const (
	anonymousLines       = 20
	anonymousLinesAtOnce = 2000
)

// middleware is what a request passes before the API handles it: TLS, authentication, metrics and
// the access log. The zero value passes every request on.
type middleware struct {
	tls      *tls.Config         // nil means plain http
	guard    *auth.Guard         // nil means no authentication
	metrics  *telemetry.Metrics  // nil means no metrics
	requests *telemetry.Requests // nil means neither metrics nor access log
	profiles bool                // serves profiles beside the metrics
}

func newMiddleware(cfg APIConfig, log *slog.Logger, now func() time.Time) (*middleware, error) {
	m := &middleware{profiles: cfg.Profiles}
	if cfg.MetricsListen != "" {
		m.metrics = telemetry.New()
	}
	if cfg.tls() {
		pair, err := newPair("api", cfg.TLSCertificate, cfg.TLSKey, log, now)
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
		if m.guard, err = auth.New(cfg.HtpasswdFile, auth.Options{RoleFile: cfg.RoleFile, Logger: log, Now: now}); err != nil {
			return nil, err
		}
	}
	if m.metrics != nil || cfg.AccessLog {
		m.requests = &telemetry.Requests{Metrics: m.metrics, User: auth.User, Now: now}
		if cfg.AccessLog {
			m.requests.AccessLog = log
			m.requests.AnonymousLog = loglimit.New(log, anonymousLines, anonymousLinesAtOnce)
		}
	}
	cfg.warn(log)
	return m, nil
}

// warn logs the dangers that the configuration accepts.
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

// role returns the role of a request. Without authentication everybody is an
// administrator.
func (m *middleware) role(ctx context.Context) role.Role {
	if m.guard == nil {
		return role.Admin
	}
	return auth.Role(ctx)
}

// route wraps the handler of one path. A public path needs no credentials: there, clients learn
// which API this is, probes learn whether it works, and ramdisks, which have no password, report
// their machine. Package httpapi limits the requests of ramdisks, and package agent what they can
// do.
func (m *middleware) route(next http.Handler, public bool) http.Handler {
	if m.requests != nil && !public {
		next = m.requests.RecordUser(next)
	}
	if m.guard != nil && !public {
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

// metricsHandler serves the metrics, and profiles to administrators. Both need the same
// authentication as the API, because they tell about the same machines.
func (m *middleware) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.metrics.Handler())
	if m.profiles {
		mux.Handle("GET "+profilePath, m.forAdmins(profileHandler()))
	}
	if m.guard == nil {
		return mux
	}
	return m.guard.Wrap(mux)
}

// checkedHost refuses requests whose Host header check refuses. A nil check allows all.
func checkedHost(next http.Handler, check func(host string) error) http.Handler {
	if check == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Host); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forAdmins refuses requests of users who are not administrators.
func (m *middleware) forAdmins(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.role(r.Context()) < role.Admin {
			http.Error(w, "Profiles need the role "+role.Admin.String()+".", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
