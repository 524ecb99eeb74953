// Package httpapi serves the Bare Metal API v1 over HTTP.
//
// It knows the wire and nothing behind it: versions, fields, limits, error
// bodies. What a request means is up to the Engine it is given. One set of
// tables (routes, node fields, port fields, filters, and the verbs of package
// node) says since which microversion a thing exists; hiding, refusals and the
// pages of the documentation follow from them.
package httpapi

//go:generate go test -run "^(TestStatusPageListsWhatIsNotBuilt|TestAPIPageShowsTheTables)$" -update .

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/driver"
)

// Options is what the API needs to know beside its Engine.
type Options struct {
	// PublicURL is the address that links in answers start with, without /v1,
	// such as "https://metal.example.org". Empty means what the request's Host
	// header says.
	PublicURL string
	// DisableRamdisk refuses lookup, heartbeat and continue_inspection with
	// 403, for replicas that serve people on a public network.
	DisableRamdisk bool
	// InspectionStatus is what a machine hears whose inspection data was taken, 200
	// or 202. 0 means 200.
	InspectionStatus int
	// TrustedProxies are where proxies stand whose X-Forwarded-For says from where
	// a ramdisk posted; none means that the sender of the request is the source.
	TrustedProxies []netip.Prefix
	// Around wraps the handler of every path, unknown ones included, inside the
	// router: the request's Pattern says which route it is. Authentication goes
	// here. Nil means nothing.
	Around func(http.Handler) http.Handler
	// User returns who was authenticated for a request, by its context; nil means
	// that nobody ever is.
	User func(context.Context) string
	// Drivers names the hardware types that nodes may use; required.
	Drivers *driver.Registry
	// Logger takes a line per request at level debug and the reason of every
	// 5xx answer. Nil means slog.Default.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// api is what every handler can reach.
type api struct {
	engine  Engine
	drivers *driver.Registry
	options Options
	log     *slog.Logger
	now     func() time.Time
	roster  roster

	ramdiskBytes *semaphore.Weighted // see withBudget
}

// New returns the handler of the whole API. It is safe for concurrent use.
func New(engine Engine, options Options) http.Handler {
	a := &api{
		engine: engine, drivers: options.Drivers, options: options, log: options.Logger, now: options.Now,
		ramdiskBytes: semaphore.NewWeighted(maxRamdiskBytes),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a.frame(newRouter(a, a.routes()))
}
