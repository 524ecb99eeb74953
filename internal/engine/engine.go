// Package engine puts the parts of the Bare Metal engine together: store,
// drivers, inspection pipeline, conductor and HTTP API. Commands and tests start
// engines through it; it decides nothing itself.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/internal/agent"
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
	Clock  func() time.Time // nil means time.Now
}

// Engine is a running engine.
type Engine struct {
	store     *store.Store
	conductor *conductor.Conductor
	server    *http.Server
	listener  net.Listener
	served    chan error
}

// Start opens the database, resumes the work that is stored there and answers
// requests when it returns. Stop ends it.
func Start(ctx context.Context, opts Options) (*Engine, error) {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	cfg := opts.Config
	// The port comes first: a second engine started by mistake says so before it
	// touches anything.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.API.Listen)
	if err != nil {
		return nil, listenError(cfg.API.Listen, err)
	}
	e := &Engine{listener: listener, served: make(chan error, 1)}
	if err := e.start(ctx, opts); err != nil {
		return nil, errors.Join(err, e.Stop(ctx))
	}
	return e, nil
}

// listenError says why an address cannot be listened on, without the operating
// system's repetition of the address.
func listenError(address string, err error) error {
	var cause syscall.Errno
	if errors.As(err, &cause) {
		err = cause
	}
	return fmt.Errorf("listen on %s: %w: stop what uses it, or choose another address with --listen", address, err)
}

func (e *Engine) start(ctx context.Context, opts Options) (err error) {
	cfg := opts.Config
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
	pipeline, err := inspect.NewPipeline(inspect.Config{
		DefaultHooks: cfg.Inspector.DefaultHooks, Hooks: cfg.Inspector.Hooks,
		AddPorts: inspect.AddPorts(cfg.Inspector.AddPorts), KeepPorts: inspect.KeepPorts(cfg.Inspector.KeepPorts),
		UpdatePXEEnabled: cfg.Inspector.UpdatePXEEnabled,
	})
	if err != nil {
		return fmt.Errorf("set up inspection: %w", err)
	}
	for _, warning := range pipeline.Warnings() {
		opts.Logger.Warn("Inspection is configured in an outdated way", "warning", warning)
	}
	if e.store, err = store.Open(ctx, store.Options{Dir: cfg.Database.Dir, URL: cfg.Database.URL, Clock: opts.Clock}); err != nil {
		return err
	}
	settings, err := conductorConfig(cfg)
	if err != nil {
		return err
	}
	c := conductor.New(e.store, drivers, pipeline, settings, opts.Logger)
	if err := c.Start(ctx); err != nil {
		return err
	}
	e.conductor = c
	e.serve(httpapi.New(c, httpapi.Options{
		Hostname: cfg.Conductor.Hostname, PublicURL: cfg.API.PublicURL, Drivers: drivers,
		DisableRamdisk: cfg.API.DisableRamdiskEndpoints, Logger: opts.Logger, Now: opts.Clock,
	}), opts.Logger)
	return nil
}

func (e *Engine) serve(handler http.Handler, log *slog.Logger) {
	e.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute, // a 64 MiB config drive over a slow link
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { e.served <- e.server.Serve(e.listener) }()
}

// URL is where the engine answers.
func (e *Engine) URL() string { return "http://" + e.listener.Addr().String() }

// Done yields the reason when the listener fails by itself.
func (e *Engine) Done() <-chan error { return e.served }

// Stop refuses new requests, finishes those that run, lets work stop at its next
// wait and closes the database. What is unfinished goes on at the next start.
func (e *Engine) Stop(ctx context.Context) error {
	var errs []error
	if e.server != nil {
		errs = append(errs, e.server.Shutdown(ctx), e.server.Close())
	} else {
		errs = append(errs, e.listener.Close())
	}
	if e.conductor != nil {
		errs = append(errs, e.conductor.Stop(ctx))
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	return errors.Join(errs...)
}

func conductorConfig(cfg Config) (conductor.Config, error) {
	networks, err := cfg.Agent.networks()
	if err != nil {
		return conductor.Config{}, fmt.Errorf("agent.allowed_networks: %w", err)
	}
	return conductor.Config{
		Hostname: cfg.Conductor.Hostname, Group: cfg.Conductor.Group, Workers: cfg.Conductor.Workers,
		LeaseTTL: cfg.Conductor.LeaseDuration, LockWait: cfg.Conductor.LockWait,
		WorkTimeout: cfg.Conductor.WorkTimeout, MaxAttempts: cfg.Conductor.MaxAttempts,
		AutomatedClean: cfg.Conductor.AutomatedClean, HeartbeatTimeout: cfg.Agent.HeartbeatTimeout,
		FastTrack: cfg.Agent.FastTrack,
		AgentRules: agent.Rules{
			RequireTLS: cfg.Agent.RequireTLS, AllowedNetworks: networks, VerifyAddress: cfg.Agent.VerifyCallbackAddress,
		},
		Discovery: conductor.Discovery{
			Enabled: cfg.AutoDiscovery.Enabled, Driver: cfg.AutoDiscovery.Driver, MaxNodes: cfg.AutoDiscovery.MaxNodes,
			Rate: cfg.AutoDiscovery.Rate, Burst: cfg.AutoDiscovery.Burst,
		},
	}, nil
}
