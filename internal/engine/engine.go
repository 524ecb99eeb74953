// Package engine puts the parts of the Bare Metal engine together: store,
// drivers, inspection pipeline, conductor and HTTP API. Commands and tests start
// engines through it; it decides nothing itself.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/agentclient"
	"github.com/ingot-metal/ingot/internal/auth"
	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/driver/builtin"
	"github.com/ingot-metal/ingot/internal/driver/ipmi"
	"github.com/ingot-metal/ingot/internal/driver/ramdisk"
	"github.com/ingot-metal/ingot/internal/driver/redfish"
	"github.com/ingot-metal/ingot/internal/httpapi"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/lifecycle"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// How long requests may continue when the engine stops. With transfersWithin, these limits leave
// time for calls to machines and for the end of sessions on BMCs.
const (
	requestsWithin = 5 * time.Second
	scrapesWithin  = time.Second // profiles too, which a client may request with any length
)

// Options is what an engine needs beside its configuration.
type Options struct {
	Config Config
	Logger *slog.Logger
	Clock  func() time.Time // nil means the database's
}

// Engine is a running engine.
type Engine struct {
	config     Config
	log        *slog.Logger
	clock      func() time.Time // the clock of Options; nil means the database's
	parts      lifecycle.Stack
	served     chan error // receives the reason when a server has ended
	middleware *middleware
	drivers    *driver.Registry
	redfish    redfish.Driver
	hooks      *inspect.Pipeline
	store      *store.Store
	conductor  *conductor.Conductor
	api        *server
	metrics    *server // nil when api.metrics_listen is empty
	boot       boot
}

// Start opens the database and resumes the work that is stored in it. When it returns, the engine
// answers requests. Stop ends the engine. After an error nothing is left running.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	e := &Engine{config: opts.Config, log: maskingLog(opts.Logger), clock: opts.Clock, served: make(chan error, 4)}
	err := e.parts.Start(ctx,
		// The listeners come first: a second engine that somebody starts by mistake fails before it
		// touches anything.
		lifecycle.Part{Name: "API listener", Start: e.listen, Stop: func(context.Context) error { return e.api.close() }},
		lifecycle.Part{Name: "boot listener", Start: e.listenBoot, Stop: e.closeBoot},
		lifecycle.Part{Name: "image cache", Start: e.openImages, Stop: e.closeImages},
		lifecycle.Part{Name: "configuration", Start: e.configure},
		// This server starts early, so it stops late: metrics are served until the rest has
		// stopped.
		lifecycle.Part{Name: "metrics server", Start: e.serveMetrics, Stop: e.stopMetrics},
		lifecycle.Part{Name: "database", Start: e.openStore, Stop: func(context.Context) error { return e.store.Close() }},
		lifecycle.Part{Name: "BMC sessions", Stop: func(ctx context.Context) error { return e.redfish.Close(ctx) }},
		lifecycle.Part{Name: "conductor", Start: e.startConductor, Stop: func(ctx context.Context) error { return e.conductor.Stop(ctx) }},
		lifecycle.Part{Name: "boot service", Start: e.serveBoot, Stop: e.stopBoot},
		lifecycle.Part{Name: "API server", Start: e.serveAPI, Stop: e.stopAPI},
	)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Engine) listen(ctx context.Context) (err error) {
	e.api, err = listen(ctx, "--listen", e.config.API.Listen)
	return err
}

// configure sets up what depends on the configuration alone. So an error in the configuration is
// found before the database is opened.
func (e *Engine) configure(context.Context) (err error) {
	// The middleware watches files of this machine and times requests to it, so it uses this
	// machine's clock.
	if e.middleware, err = newMiddleware(e.config.API, e.log, time.Now); err != nil {
		return err
	}
	if e.drivers, err = e.newDrivers(); err != nil {
		return err
	}
	if e.hooks, err = inspect.NewPipeline(e.config.Inspector.hooks()); err != nil {
		return fmt.Errorf("set up inspection: %w", err)
	}
	for _, warning := range e.hooks.Warnings() {
		e.log.Warn("Inspection is configured in an outdated way", "warning", warning)
	}
	return nil
}

// scrapers limits the connections to the metrics. Collectors need far fewer.
const scrapers = 64

func (e *Engine) serveMetrics(ctx context.Context) (err error) {
	if e.config.API.MetricsListen == "" {
		return nil
	}
	if e.metrics, err = listen(ctx, "api.metrics_listen", e.config.API.MetricsListen); err != nil {
		return err
	}
	e.metrics.share(scrapers, "api.metrics_listen", e.log)
	e.metrics.serve(checkedHost(e.middleware.metricsHandler(), e.config.API.hostCheck(e.config.API.MetricsListen)), e.middleware.tls, e.log, e.served)
	return nil
}

func (e *Engine) stopMetrics(ctx context.Context) error {
	if e.metrics == nil {
		return nil
	}
	return e.metrics.stopBy(ctx, time.Now().Add(scrapesWithin))
}

func (e *Engine) openStore(ctx context.Context) (err error) {
	cfg := e.config.Database
	e.store, err = store.Open(ctx, store.Options{Dir: cfg.Dir, URL: cfg.URL, Name: e.config.Conductor.Hostname, Clock: e.clock, WriteConnections: cfg.WriteConnections, Logger: e.log})
	return err
}

// startConductor starts the conductor, which resumes the work that is stored.
func (e *Engine) startConductor(ctx context.Context) error {
	settings, err := conductorConfig(e.config)
	if err != nil {
		return err
	}
	if settings.Inventories, err = e.config.Inventory.open(ctx, e.log); err != nil {
		return err
	}
	if settings.Logs, err = e.config.Agent.openLogs(); err != nil {
		return err
	}
	if e.middleware.metrics != nil {
		settings.Observer = e.middleware.metrics
	}
	settings.Agents = agentclient.New(settings.AgentRules)
	e.conductor = conductor.New(e.store, e.drivers, e.hooks, settings, e.log)
	if err := e.conductor.Start(ctx); err != nil {
		return err
	}
	if e.middleware.metrics != nil {
		e.middleware.metrics.Watch(e.conductor, e.log, time.Now)
	}
	return nil
}

func (e *Engine) newDrivers() (*driver.Registry, error) {
	cfg := e.config
	settings, err := conductorConfig(cfg)
	if err != nil {
		return nil, err
	}
	running := func(n *node.Node) bool { return agent.Alive(n, e.now(), cfg.Agent.HeartbeatTimeout) }
	silent := func(n *node.Node) bool {
		return !running(n) && e.now().Sub(e.conductor.ListeningSince()) > cfg.Agent.HeartbeatTimeout
	}
	inRamdisk := ramdisk.New(ramdisk.Options{
		Agents: agentclient.New(settings.AgentRules), Running: running, Silent: silent, LookupKeys: cfg.Agent.LookupKeys, Ports: e.portsOf,
		AllowMD5: cfg.Agent.AllowMD5, StepTimeout: cfg.Agent.StepTimeout,
	})
	e.redfish = redfish.New(redfish.Options{FileOptions: e.firmwareFiles()})
	netboot, err := cfg.Boot.netboot(cfg.API)
	if err != nil {
		return nil, err
	}
	drivers, err := builtin.New(driver.Config{EnabledHardwareTypes: cfg.Driver.EnabledHardwareTypes}, builtin.Dependencies{
		AgentAlive: running, AgentSilent: silent, AgentReboot: inRamdisk.Reboot,
		IPMI:    ipmi.New(ipmi.Options{}),
		Redfish: e.redfish,
		Ramdisk: inRamdisk,
		Netboot: netboot, Images: e.servedImages(),
	})
	if err != nil {
		return nil, fmt.Errorf("set up drivers: %w", err)
	}
	if d := cfg.AutoDiscovery; d.Enabled {
		if _, err := drivers.Resolve(d.Driver, node.Interfaces{}); err != nil {
			return nil, fmt.Errorf("auto_discovery.driver: %w", err)
		}
	}
	return drivers, nil
}

// portsOf reads the ports of a node.
func (e *Engine) portsOf(ctx context.Context, n *node.Node) (ports []*node.Port, err error) {
	err = e.store.Read(ctx, func(tx *store.Tx) error {
		ports, err = tx.PortsOf(n.ID)
		return err
	})
	return ports, err
}

func (e *Engine) serveAPI(context.Context) error {
	cfg := e.config
	proxies, err := cfg.AutoDiscovery.proxies()
	if err != nil {
		return err
	}
	e.api.share(e.config.API.MaxConnections, "api.max_connections", e.log)
	e.api.watchHandshakes(e.log)
	e.api.waits = 2 * cfg.Conductor.CallTimeout // for earlier calls to the same BMC, and for this one
	e.api.serve(e.middleware.api(httpapi.New(e.conductor, httpapi.Options{
		Middleware: e.middleware.route, User: auth.User, Role: e.middleware.role,
		PublicURL: cfg.API.PublicURL, CheckHost: cfg.API.hostCheck(cfg.API.Listen), Drivers: e.drivers,
		DisableRamdisk: cfg.API.DisableRamdiskEndpoints, InspectionStatus: cfg.Inspector.CallbackStatus, TrustedProxies: proxies, LookupKeys: cfg.Agent.LookupKeys, AllowMD5: cfg.Agent.AllowMD5,
		Logger: e.log, Now: e.now,
	})), e.middleware.tls, e.log, e.served)
	return nil
}

func (e *Engine) stopAPI(ctx context.Context) error {
	return e.api.stopBy(ctx, time.Now().Add(requestsWithin))
}

// now returns the time by the clock of Options, else by the database's clock, which leases are
// measured with. It must not be called before the database is open.
func (e *Engine) now() time.Time {
	if e.clock != nil {
		return e.clock()
	}
	return e.store.Now()
}

// URL returns the URL of the API.
func (e *Engine) URL() string { return e.api.url(e.middleware.tls) }

// MetricsURL returns the URL of the server for metrics, empty when metrics are off.
func (e *Engine) MetricsURL() string {
	if e.metrics == nil {
		return ""
	}
	return e.metrics.url(e.middleware.tls) + "/metrics"
}

// Done yields the reason when a listener has ended although nobody stopped it.
func (e *Engine) Done() <-chan error { return e.served }

// Stop refuses new requests. It lets running requests finish, but cuts them off after some seconds.
// Work stops at its next wait and goes on at the next start. The database is closed last. The error
// names each part that did not stop before ctx ended.
func (e *Engine) Stop(ctx context.Context) error { return e.parts.Stop(ctx) }
