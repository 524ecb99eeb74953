package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/agent"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
)

// progressInterval is the least time between two progress lines.
const progressInterval = time.Second

// newSimCommand returns `ingot sim`.
func newSimCommand() *cobra.Command {
	var flags simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate machines with ramdisk agents",
		Long: `Power on simulated machines. Each machine boots a ramdisk agent that posts its
hardware to the engine, looks itself up, serves the agent's commands on its own
loopback address and sends heartbeats. It writes images to the machine's disks, from which
the machine boots afterwards. The same seed always gives the same
machines. Ctrl-C powers them off and prints the answers of the engine and what was done.

With --boot-url, the machines boot from the network only what the iPXE script there tells
them to. With --bmc, every machine has a BMC on a loopback address of its own, which speaks
Redfish over TLS and switches the machine.`,
		Example: "  ingot sim --machines 100 --rate 20\n  ingot sim --machines 3 --boot-url http://127.0.0.1:8088/boot.ipxe --disks /var/tmp/disks\n  ingot sim --machines 3 --kind edge --once --engine http://127.0.0.1:6385\n" +
			"  ingot sim --machines 3 --bmc mixed --bmc-ca-file bmc-ca.pem --off --admin 127.0.0.1:8098",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context(), cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.options.Engine, "engine", "http://127.0.0.1:6385", "root URL of the Bare Metal API")
	f.StringVar(&flags.options.BootURL, "boot-url", "", "iPXE script that machines boot from the network; without it, they boot a ramdisk that reports to --engine")
	f.StringVar(&flags.options.Disks, "disks", "", "existing folder to keep what is written to the disks in, as sparse files; without it, only size, checksum and format are kept")
	f.IntVar(&flags.options.Machines, "machines", 10, "number of machines")
	f.Uint64Var(&flags.options.Seed, "seed", 1, "seed of the machines' hardware")
	f.Float64Var(&flags.rate, "rate", 10, "machines to power on per second; 0 means all at once")
	f.StringVar(&flags.listen, "listen", hardware.DefaultNetwork.String(), "network on this computer with an address for each machine")
	f.StringVar(&flags.inventory, "inventory-network", "", "network of the addresses in the inventories, by default that of --listen; for engines that ignore interfaces with loopback addresses")
	f.StringVar(&flags.options.AgentVersion, "agent-version", agent.DefaultVersion, "version of ironic-python-agent that the machines behave like")
	f.BoolVar(&flags.agentTLS, "agent-tls", true, "serve the commands of agents over TLS")
	f.DurationVar(&flags.options.BootTime, "boot-time", time.Second, "mean time from power on to a running ramdisk")
	f.DurationVar(&flags.options.HeartbeatTimeout, "heartbeat", 0, "heartbeat timeout to use instead of the engine's; agents send one after 30 to 60 % of it")
	f.Float64Var(&flags.speed, "speed", 1, "factor that shortens every pause of the machines")
	f.StringVar((*string)(&flags.options.Hardware.Kind), "kind", "", "only machines of this kind: server, edge or virtual")
	f.IntVar(&flags.options.Hardware.NICs, "nics", 0, "exact number of network interfaces of every machine; 0 means the number of the model")
	f.StringVar(&flags.cacert, "engine-cacert", "", "PEM file with the certificate authorities of an https engine, and of servers of boot files and images")
	f.BoolVar(&flags.insecure, "insecure", false, "do not verify the certificate of an https engine")
	f.BoolVar(&flags.once, "once", false, "exit as soon as all machines run")
	f.StringVar(&flags.admin, "admin", "", "address to serve what was done to the machines on, and to take faults, such as 127.0.0.1:8098")
	flags.bmc.add(cmd)
	addAgentFaults(cmd, &flags.options.AgentFaults)
	flags.log.add(cmd)
	cmd.AddCommand(newFakeMachinesCommand(), newBMCRecordingCommand())
	complete(cmd, "kind", cobra.FixedCompletions(
		[]cobra.Completion{string(hardware.Server), string(hardware.Edge), string(hardware.Virtual)}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type simFlags struct {
	options        sim.Options
	rate, speed    float64
	listen, cacert string
	inventory      string
	admin          string
	agentTLS       bool
	insecure, once bool
	bmc            simBMCFlags
	log            logFlags
}

// machines turns the flags into machines that are powered off.
func (f *simFlags) machines(cmd *cobra.Command) (*sim.Machines, error) {
	o := f.options
	for _, network := range []struct {
		flag, text string
		into       *netip.Prefix
	}{{"--listen", f.listen, &o.Network}, {"--inventory-network", f.inventory, &o.Inventory}} {
		if network.text == "" {
			continue
		}
		var err error
		if *network.into, err = netip.ParsePrefix(network.text); err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("%s: want a network such as %s, got %q", network.flag, hardware.DefaultNetwork, network.text)}
		}
	}
	if f.rate < 0 || f.speed <= 0 {
		return nil, &cli.UsageError{Err: errors.New("--rate must not be negative and --speed must be positive")}
	}
	log, err := f.log.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	engineTLS, err := f.engineTLS()
	if err != nil {
		return nil, err
	}
	o.PlainHTTP, o.EngineTLS = !f.agentTLS, engineTLS
	o.Clock, o.Log = agent.Accelerated(f.speed), log
	if err := f.bmc.apply(&o, f.speed); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	return sim.New(o)
}

// engineTLS returns how to check the engine's certificate, nil for the usual way.
func (f *simFlags) engineTLS() (*tls.Config, error) {
	if f.cacert == "" && !f.insecure {
		return nil, nil
	}
	config := &tls.Config{InsecureSkipVerify: f.insecure} //nolint:gosec // asked for with --insecure
	if f.cacert != "" {
		pem, err := os.ReadFile(f.cacert)
		if err != nil {
			return nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authorities: %s holds no PEM certificate", f.cacert)
		}
	}
	return config, nil
}

func (f *simFlags) run(ctx context.Context, cmd *cobra.Command) error {
	machines, err := f.machines(cmd)
	if err != nil {
		return err
	}
	defer machines.Stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := f.bmc.serve(ctx, machines, cmd); err != nil {
		return err
	}
	endAdmin, err := serveAdmin(ctx, f.admin, machines, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer endAdmin()
	powered := make(chan struct{})
	go func() {
		defer close(powered)
		if f.bmc.off {
			return
		}
		if err := machines.PowerOn(ctx, f.rate); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}()
	err = machines.Report(ctx, cmd.ErrOrStderr(), progressInterval, f.once)
	cancel(nil)
	<-powered
	// The machines have stopped, so an error in printing is ignored.
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "\n%s", machines.Summary())
	printTotals(cmd.OutOrStdout(), machines.Recorder().Totals())
	return err
}
