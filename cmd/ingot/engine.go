package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/engine"
	"github.com/ingot-metal/ingot/internal/gctuner"
)

// stopTimeout bounds how long a service may take to finish its requests and work when
// it is stopped.
const stopTimeout = 15 * time.Second

// newEngineCommand returns `ingot engine`.
func newEngineCommand() *cobra.Command {
	var flags engineFlags
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Serve the Bare Metal API",
		Long: `Serve the Bare Metal API v1 (the API of OpenStack Ironic) from an embedded
database or from PostgreSQL. Configuration comes from the file of --config, then
from environment variables INGOT_SECTION__KEY, then from --set; later ones win.
docs/configuration.md lists the keys.`,
		Example: "  ingot engine --data /var/lib/ingot\n  ingot engine --set auto_discovery.enabled=true --set auto_discovery.driver=manual-management",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context(), cmd) },
	}
	cmd.Flags().StringVar(&flags.listen, "listen", "", "address to listen on (api.listen, default 127.0.0.1:6385)")
	flags.addDatabase(cmd)
	flags.log.add(cmd)
	cmd.AddCommand(newBackupCommand(), newRestoreCommand(), newMarkRestoredCommand())
	return cmd
}

type engineFlags struct {
	all                            *pflag.FlagSet // the flags of the command, which include these
	listen, data, database, config string
	set                            []string
	log                            logFlags
}

// addDatabase adds the flags for the database.
func (f *engineFlags) addDatabase(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.all = flags
	flags.StringVar(&f.data, "data", "", "data folder of the embedded database (database.dir, default ingot-data)")
	flags.StringVar(&f.database, "database", "", "URL of a PostgreSQL database instead of the embedded one (database.url)")
	flags.StringVar(&f.config, "config", "", "YAML configuration file")
	flags.StringArrayVar(&f.set, "set", nil, "configuration section.key=value; may be repeated")
}

// load returns the configuration from all sources.
func (f *engineFlags) load() (engine.Config, error) {
	sources, err := f.sources()
	if err != nil {
		return engine.Config{}, err
	}
	return engine.LoadConfig(sources)
}

// sources turns the flags into configuration sources. It refuses empty values: they
// usually come from an unset variable in a script, and starting an engine with a new
// database in the working directory would be wrong then.
func (f *engineFlags) sources() (engine.Sources, error) {
	for _, name := range []string{"listen", "data", "database", "config"} {
		if flag := f.all.Lookup(name); flag != nil && flag.Changed && flag.Value.String() == "" {
			return engine.Sources{}, &cli.UsageError{Err: fmt.Errorf("--%s is empty: give it a value, or leave it out for the default", name)}
		}
	}
	set := map[string]string{}
	for key, value := range map[string]string{"api.listen": f.listen, "database.dir": f.data, "database.url": f.database} {
		if value != "" {
			set[key] = value
		}
	}
	for _, assignment := range f.set {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok {
			return engine.Sources{}, &cli.UsageError{Err: fmt.Errorf("--set: want section.key=value, got %q", assignment)}
		}
		set[key] = value
	}
	return engine.Sources{File: f.config, Environ: os.Environ(), Set: set}, nil
}

func (f *engineFlags) run(ctx context.Context, cmd *cobra.Command) error {
	log, err := f.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	cfg, err := f.load()
	if err != nil {
		return err
	}
	gctuner.FavorSpeed()
	e, err := engine.Start(ctx, engine.Options{Config: cfg, Logger: log})
	if err != nil {
		return err
	}
	if err := forgetStart(); err != nil {
		log.Debug("Memory that only the start needed is kept", "error", err)
	}
	log.Info("Engine is ready", "url", e.URL(), "metrics", e.MetricsURL(), "database", databaseOf(cfg.Database), "auto_discovery", cfg.AutoDiscovery.Enabled)
	select {
	case <-ctx.Done():
		log.Info("Engine is stopping")
		err = nil
	case err = <-e.Done():
		err = fmt.Errorf("serve on %s: %w", e.URL(), err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if stopErr := e.Stop(bounded); stopErr != nil && err == nil {
		err = fmt.Errorf("stop engine: %w", stopErr)
	}
	return err
}

// forgetStart frees the memory that only the start needed. Creating a database leaves 12 MB of
// buffers in a pool, and it takes two garbage collections to empty the pool. With the buffers, the
// heap would grow to several times that size before the next collection.
func forgetStart() error {
	runtime.GC()
	debug.FreeOSMemory()
	return releaseProgram()
}

// databaseOf describes the database for the log, without secrets.
func databaseOf(cfg engine.DatabaseConfig) string {
	if cfg.URL != "" {
		return "PostgreSQL"
	}
	return cfg.Dir
}
