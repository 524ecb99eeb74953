// Package engine puts the parts of the Bare Metal engine together: store,
// drivers, inspection pipeline, conductor and HTTP API. Commands and tests start
// engines through it; it decides nothing itself.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
	"github.com/ingot-metal/ingot/internal/auth"
	"github.com/ingot-metal/ingot/internal/conductor"
	"github.com/ingot-metal/ingot/internal/driver"
	"github.com/ingot-metal/ingot/internal/httpapi"
	"github.com/ingot-metal/ingot/internal/inspect"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

// Options is what an engine needs beside its configuration.
type Options struct {
	Config Config
	Logger *slog.Logger
	Clock  func() time.Time // nil means the database's
}

// Engine is a running engine.
type Engine struct {
	store     *store.Store
	conductor *conductor.Conductor
	front     *front
	api       *site
	metrics   *site      // nil when api.metrics_listen is empty
	served    chan error // gets why a site ended
}

// Start opens the database, resumes the work that is stored there and answers
// requests when it returns. Stop ends it.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	cfg := opts.Config
	// The port comes first: a second engine started by mistake says so before it
	// touches anything.
	api, err := listen(ctx, "--listen", cfg.API.Listen)
	if err != nil {
		return nil, err
	}
	e := &Engine{api: api, served: make(chan error, 2)}
	if err := e.start(ctx, opts); err != nil {
		return nil, errors.Join(err, e.Stop(ctx))
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, opts Options) (err error) {
	cfg, injected := opts.Config, opts.Clock
	if injected == nil {
		opts.Clock = e.now
	}
	// The front measures files and requests of this machine, by its own clock.
	if e.front, err = newFront(cfg.API, opts.Logger, time.Now); err != nil {
		return err
	}
	if cfg.API.MetricsListen != "" {
		if e.metrics, err = listen(ctx, "api.metrics_listen", cfg.API.MetricsListen); err != nil {
			return err
		}
	}
	drivers, err := driver.New(driver.Config{
		EnabledHardwareTypes: cfg.Driver.EnabledHardwareTypes,
		AgentAlive: func(n *node.Node) bool {
			return agent.Alive(n, opts.Clock(), cfg.Agent.HeartbeatTimeout)
		},
	})
	if err != nil {
		return fmt.Errorf("set up drivers: %w", err)
	}
	if d := cfg.AutoDiscovery; d.Enabled {
		if _, err := drivers.Resolve(d.Driver, node.Interfaces{}); err != nil {
			return fmt.Errorf("auto_discovery.driver: %w", err)
		}
	}
	pipeline, err := inspect.NewPipeline(cfg.Inspector.hooks())
	if err != nil {
		return fmt.Errorf("set up inspection: %w", err)
	}
	for _, warning := range pipeline.Warnings() {
		opts.Logger.Warn("Inspection is configured in an outdated way", "warning", warning)
	}
	if e.store, err = store.Open(ctx, store.Options{
		Dir: cfg.Database.Dir, URL: cfg.Database.URL, Name: cfg.Conductor.Hostname, Clock: injected,
	}); err != nil {
		return err
	}
	settings, err := conductorConfig(cfg)
	if err != nil {
		return err
	}
	if settings.Inventories, err = cfg.Inventory.open(ctx, opts.Logger); err != nil {
		return err
	}
	if e.front.metrics != nil {
		settings.Observer = e.front.metrics
	}
	c := conductor.New(e.store, drivers, pipeline, settings, opts.Logger)
	if err := c.Start(ctx); err != nil {
		return err
	}
	e.conductor = c
	if e.metrics != nil {
		e.front.metrics.Watch(c, opts.Logger, time.Now)
		e.metrics.serve(e.front.metricsHandler(), e.front.tls, opts.Logger, e.served)
	}
	proxies, err := cfg.AutoDiscovery.proxies()
	if err != nil {
		return err
	}
	e.api.serve(e.front.outside(httpapi.New(c, httpapi.Options{
		Around: e.front.inside, User: auth.User,
		PublicURL: cfg.API.PublicURL, Drivers: drivers,
		DisableRamdisk: cfg.API.DisableRamdiskEndpoints, InspectionStatus: cfg.Inspector.CallbackStatus, TrustedProxies: proxies,
		Logger: opts.Logger, Now: opts.Clock,
	})), e.front.tls, opts.Logger, e.served)
	return nil
}

// now is the time by the database's clock, which leases are measured with. Before
// the database is open, nothing that replicas share is measured.
func (e *Engine) now() time.Time {
	if e.store == nil {
		return time.Now()
	}
	return e.store.Now()
}

// URL is where the engine answers.
func (e *Engine) URL() string { return e.api.url(e.front.tls) }

// MetricsURL is where Prometheus finds the figures, empty when they are off.
func (e *Engine) MetricsURL() string {
	if e.metrics == nil {
		return ""
	}
	return e.metrics.url(e.front.tls) + "/metrics"
}

// Done yields the reason when a listener fails by itself.
func (e *Engine) Done() <-chan error { return e.served }

// Stop refuses new requests, finishes those that run, lets work stop at its next
// wait and closes the database. What is unfinished goes on at the next start.
func (e *Engine) Stop(ctx context.Context) error {
	errs := []error{e.api.stop(ctx)}
	if e.conductor != nil {
		errs = append(errs, e.conductor.Stop(ctx))
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	errs = append(errs, e.metrics.stop(ctx))
	return errors.Join(errs...)
}

func conductorConfig(cfg Config) (conductor.Config, error) {
	networks, err := cfg.Agent.networks()
	if err != nil {
		return conductor.Config{}, fmt.Errorf("agent.allowed_networks: %w", err)
	}
	allowed, err := cfg.AutoDiscovery.allowList()
	if err != nil {
		return conductor.Config{}, err
	}
	return conductor.Config{
		Hostname: cfg.Conductor.Hostname, Group: strings.ToLower(cfg.Conductor.Group), Workers: cfg.Conductor.Workers,
		LeaseTTL: cfg.Conductor.LeaseDuration, LockWait: cfg.Conductor.LockWait,
		WorkTimeout: cfg.Conductor.WorkTimeout, MaxAttempts: cfg.Conductor.MaxAttempts,
		AutomatedClean: cfg.Conductor.AutomatedClean, RefusedCleanSteps: cfg.Conductor.RefusedCleanSteps,
		HeartbeatTimeout: cfg.Agent.HeartbeatTimeout,
		FastTrack:        cfg.Agent.FastTrack,
		AgentRules: agent.Rules{
			RequireTLS: cfg.Agent.RequireTLS, AllowedNetworks: networks, VerifyAddress: cfg.Agent.VerifyCallbackAddress,
		},
		Discovery: conductor.Discovery{
			Enabled: cfg.AutoDiscovery.Enabled, Driver: cfg.AutoDiscovery.Driver, MaxNodes: cfg.AutoDiscovery.MaxNodes,
			Rate: cfg.AutoDiscovery.Rate, Burst: cfg.AutoDiscovery.Burst,
			Allow: allowed, Scope: cfg.AutoDiscovery.InspectionScope,
		},
		Inspection: conductor.Inspection{UnmanagedBoot: !cfg.Inspector.RequireManagedBoot, KeepPowerOn: !cfg.Inspector.PowerOff},
		Limits:     limits(cfg.Conductor),
	}, nil
}

func limits(cfg ConductorConfig) conductor.Limits {
	sync := cfg.PowerSyncInterval
	if sync == 0 {
		sync = -1 // off, where zero is the default
	}
	return conductor.Limits{
		CallbackTimeout: cfg.CallbackTimeout, PowerTimeout: cfg.PowerTimeout, SoftPowerOff: cfg.SoftPowerOffTimeout,
		MaxDeploying: cfg.MaxDeploying, MaxCleaning: cfg.MaxCleaning, KeepPowerOn: !cfg.PowerOffAfterDeployFailure,
		HistoryEntries: cfg.HistoryMaxEntries,
		PowerSync:      sync, AcceptPower: !cfg.ForcePowerState, PowerRecovery: cfg.PowerRecoveryInterval,
	}
}
