package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/operator"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/up"
)

// newUpCommand returns `ingot up`.
func newUpCommand() *cobra.Command {
	var opts up.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run all of Ingot on this machine, with simulated machines",
		Long: `Run a Kubernetes API, the engine, the operator and simulated machines that
nobody registered, and watch them become available hosts. Machines with a BMC are off
until you register them. With --cluster the machines become Nodes of a workload cluster
that Cluster API makes. Everything listens on loopback only and keeps its data in one
folder, which the next start uses again.`,
		Example: "  ingot up --machines 3 --data .ingot",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opts.Machines < 0 {
				return &cli.UsageError{Err: fmt.Errorf("--machines: want 0 or more, got %d", opts.Machines)}
			}
			if opts.BMCs < 0 {
				return &cli.UsageError{Err: fmt.Errorf("--bmc-machines: want 0 or more, got %d", opts.BMCs)}
			}
			if opts.Cluster && opts.Machines < 2 {
				return &cli.UsageError{Err: fmt.Errorf("--cluster: want at least 2 machines, one for the control plane, got %d", opts.Machines)}
			}
			if opts.Cluster && opts.Kubeconfig != "" {
				return &cli.UsageError{Err: errors.New("--cluster runs Cluster API in a control plane of its own; leave --kubeconfig out")}
			}
			if bits := opts.Network.Bits(); opts.Network.IsValid() && (!opts.Network.Addr().Is4() || bits > 22) {
				return &cli.UsageError{Err: fmt.Errorf("--network: want an IPv4 network of at most 22 bits, got %s", opts.Network)}
			}
			opts.Output, opts.RouteLogs = cmd.OutOrStdout(), operator.RouteLogs
			return runUp(cmd.Context(), opts)
		},
	}
	f := cmd.Flags()
	f.IntVar(&opts.Machines, "machines", 3, "number of simulated machines")
	f.IntVar(&opts.BMCs, "bmc-machines", 3, "number of simulated machines with a BMC, which are off until you register them")
	f.BoolVar(&opts.Cluster, "cluster", false, "also run Cluster API, and make a workload cluster of the machines (needs \"make cluster-api\" once)")
	f.StringVar(&opts.DataDir, "data", ".ingot", "folder for all data, the kubeconfig included")
	f.StringVar(&opts.Kubeconfig, "kubeconfig", "", "kubeconfig of a cluster to use instead of a control plane of its own")
	f.StringVar(&opts.Listen, "listen", "", "address of the engine (default 127.0.0.1:6385)")
	f.Var(&prefixValue{&opts.Network}, "network", "loopback network with an address for each machine and BMC (default "+hardware.DefaultNetwork.String()+")")
	f.Uint64Var(&opts.Seed, "seed", 1, "seed of the machines' hardware")
	return cmd
}

// prefixValue is a flag that takes a network.
type prefixValue struct{ prefix *netip.Prefix }

func (v *prefixValue) Type() string { return "network" }

func (v *prefixValue) String() string {
	if v.prefix == nil || !v.prefix.IsValid() {
		return ""
	}
	return v.prefix.String()
}

func (v *prefixValue) Set(text string) (err error) {
	*v.prefix, err = netip.ParsePrefix(text)
	return err
}

func runUp(ctx context.Context, opts up.Options) error {
	u, err := up.Start(ctx, opts)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Canceled // interrupted while starting; Start has cleaned up
		}
		return err
	}
	err = followUntilEnd(ctx, u)
	if ctx.Err() != nil {
		fmt.Fprintln(opts.Output, "Stopping …")
	}
	if stopErr := u.Stop(ctx); err == nil {
		err = stopErr
	}
	return err
}

// followUntilEnd shows progress and waits for Ctrl-C or the failure of a part.
func followUntilEnd(ctx context.Context, u *up.Up) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- u.Follow(following) }()
	for {
		select {
		case err := <-followed:
			if err != nil {
				return err
			}
			followed = nil
		case err := <-u.Failed():
			return err
		case <-ctx.Done():
			return nil
		}
	}
}
