package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/pxefilter"
	"github.com/ingot-metal/ingot/internal/store"
)

// newPXEFilterCommand returns `ingot pxe-filter`.
func newPXEFilterCommand() *cobra.Command {
	var flags pxeFilterFlags
	cmd := &cobra.Command{
		Use:   "pxe-filter",
		Short: "Tell dnsmasq which machines may boot from the network",
		Long: `Keep the dhcp-hostsdir of a dnsmasq in sync with the engine's nodes, so that
dnsmasq serves machines that are being inspected and no others.

It runs beside dnsmasq and reads the engine's database: the embedded one on the
engine's machine and as the engine's user, or PostgreSQL from anywhere. It takes
database.*, auto_discovery.enabled and auto_discovery.max_ports from the engine's configuration: --config,
INGOT_SECTION__KEY and --set. docs/pxe-filter.md describes the whole set-up.`,
		Example: "  ingot pxe-filter --data /var/lib/ingot --dhcp-hostsdir /var/lib/ingot-dnsmasq/hosts --dnsmasq-pid-file /run/dnsmasq.pid",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context(), cmd) },
	}
	flags.engine.addDatabase(cmd)
	f, opts := cmd.Flags(), &flags.opts
	f.StringVar(&opts.HostsDir, "dhcp-hostsdir", "", "the dhcp-hostsdir of dnsmasq (required)")
	f.StringSliceVar(&opts.InspectInterfaces, "inspect-interface", []string{"agent"}, "inspect interfaces whose nodes boot the ramdisk for inspection")
	f.StringSliceVar(&opts.Serve, "serve", []string{pxefilter.Inspection}, "purposes to boot the ramdisk for with this dnsmasq: inspection, cleaning, deployment, servicing, rescue, idle, or all")
	f.BoolVar(&opts.Discovery, "auto-discovery", false, "serve unknown machines (default: auto_discovery.enabled of the configuration)")
	f.DurationVar(&opts.PollInterval, "poll-interval", pxefilter.DefaultPollInterval, "time between two checks for changes")
	f.DurationVar(&opts.SyncPeriod, "sync-period", pxefilter.DefaultSyncPeriod, "time after which everything is compared even without a change")
	f.StringVar(&opts.DnsmasqPIDFile, "dnsmasq-pid-file", "", "PID file of dnsmasq, which is signalled when files were removed")
	f.IntVar(&opts.DnsmasqPID, "dnsmasq-pid", 0, "PID of dnsmasq, if it has no PID file")
	f.StringVar(&opts.MetricsAddr, "metrics-addr", "", "address to serve metrics on (default none)")
	f.StringVar(&opts.HealthAddr, "health-addr", "", "address to serve /healthz and /readyz on (default none)")
	flags.log.add(cmd)
	return cmd
}

type pxeFilterFlags struct {
	opts   pxefilter.Options
	engine engineFlags
	log    logFlags
}

func (f *pxeFilterFlags) run(ctx context.Context, cmd *cobra.Command) error {
	log, err := f.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	cfg, err := f.engine.load()
	if err != nil {
		return err
	}
	opts := f.opts
	opts.Logger = log
	opts.Database = store.Options{Dir: cfg.Database.Dir, URL: cfg.Database.URL}
	if !cmd.Flags().Changed("auto-discovery") {
		opts.Discovery = cfg.AutoDiscovery.Enabled
	}
	opts.MaxPorts = cfg.AutoDiscovery.MaxPorts
	filter, err := pxefilter.New(opts)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	return filter.Run(ctx)
}
