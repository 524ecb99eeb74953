// Package httpapi serves the Bare Metal API v1 over HTTP.
//
// It implements the wire format: versions, fields, limits and error bodies. The Engine carries out
// the requests. Tables of routes, fields and filters, and the verbs in package node, define the
// microversion that introduced each of them. Handlers, refusals and the generated documentation all
// use these tables.
package httpapi

//go:generate go test -run "^(TestStatusPageIsUpToDate|TestAPIPageIsUpToDate)$" -update .

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/role"
)

// Options configures the API.
type Options struct {
	// PublicURL is the beginning of all links in answers, without /v1, such as
	// "https://metal.example.org". Empty means the Host header of each request.
	PublicURL string
	// CheckHost returns an error for requests whose Host header names a host that this
	// engine does not answer to. Nil means that it answers to every name.
	CheckHost func(host string) error
	// DisableRamdisk refuses lookup, heartbeat and continue_inspection with 403. It is
	// for replicas that serve people on a public network.
	DisableRamdisk bool
	// InspectionStatus is the status of the answer to accepted inspection data, 200 or
	// 202. 0 means 200.
	InspectionStatus int
	// AllowMD5 lets agents verify images by MD5 checksums.
	AllowMD5 bool
	// LookupKeys are keys that ramdisks may read of their nodes besides the keys that agents read,
	// for an operator's own hardware managers. A key that ends with * stands for all keys with that
	// prefix.
	LookupKeys []string
	// TrustedProxies are the addresses of proxies whose X-Forwarded-For header names the ramdisk
	// that posted. Without proxies, the sender of the request is the source.
	TrustedProxies []netip.Prefix
	// Middleware wraps the handler of every path, including unknown paths. It runs inside the
	// router, so Pattern of the request names the route. Public says whether the route is for
	// everybody. Authentication belongs here. Nil means none.
	Middleware func(next http.Handler, public bool) http.Handler
	// User returns the authenticated user of a request, by its context. Nil means that
	// there are no users.
	User func(context.Context) string
	// Role returns the role of the user of a request, by its context. Nil means that
	// everybody is an administrator.
	Role func(context.Context) role.Role
	// Drivers names the hardware types that nodes may use; required.
	Drivers *driver.Registry
	// Logger gets one line for each request at level debug, and the reasons of 5xx answers. Nil
	// means slog.Default.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// api is the state that all handlers share.
type api struct {
	engine         Engine
	drivers        *driver.Registry
	options        Options
	log            *slog.Logger
	now            func() time.Time
	conductorCache conductorCache

	largeAnswers, largeBodies *largeQueue

	failures            *loglimit.Logger // failed requests without a user
	agents, inspections *ramdiskLimit    // lookups and heartbeats, inspection data
}

// New returns the handler of the whole API. It is safe for concurrent use.
func New(engine Engine, options Options) http.Handler {
	a := &api{
		engine: engine, drivers: options.Drivers, options: options, log: options.Logger, now: options.Now,
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.largeAnswers = fairqueue.New[string](largeAnswers, maxWaitingLarge)
	a.largeBodies = fairqueue.New[string](largeBodies, maxWaitingLarge)
	a.failures = loglimit.New(a.log, failuresASecond, failuresAtOnce)
	a.agents = newRamdiskLimit(a, maxHeartbeatBytes)
	a.inspections = newRamdiskLimit(a, maxInspectionBytes)
	return a.middleware(newRouter(a, a.routes()))
}
