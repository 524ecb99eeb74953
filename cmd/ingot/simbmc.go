package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/bmc"
	"github.com/ingot-metal/ingot/internal/sim/hardware"
	"github.com/ingot-metal/ingot/internal/sim/redfish"
)

// simBMCFlags are the flags about BMCs of `ingot sim`.
type simBMCFlags struct {
	options sim.BMCOptions
	network string
	caFile  string
	off     bool
}

func (f *simBMCFlags) add(cmd *cobra.Command) {
	flags, faults := cmd.Flags(), &f.options.Faults
	vendors := append(append([]string{}, redfish.Vendors...), sim.MixedVendors)
	flags.StringVar(&f.options.Vendor, "bmc", "", "give every machine a BMC that speaks Redfish, of this vendor: "+strings.Join(vendors, ", "))
	flags.IntVar(&f.options.Systems, "bmc-systems", 1, "how many machines share a BMC, which has a system for each")
	flags.StringVar(&f.network, "bmc-network", hardware.LocalBMCNetwork.String(), "network on this computer with an address for each BMC")
	flags.Uint16Var(&f.options.Port, "bmc-port", 8443, "port of every BMC")
	flags.Uint16Var(&f.options.IPMIPort, "bmc-ipmi-port", 6230, "UDP port on which every BMC answers IPMI as well; 0 means that none does")
	flags.StringVar(&f.options.User, "bmc-user", "root", "user of every BMC")
	flags.StringVar(&f.options.Password, "bmc-password", "calvin", "password of every BMC")
	flags.StringVar(&f.caFile, "bmc-ca-file", "", "file to write the certificate authority of the BMCs to, as PEM")
	flags.BoolVar(&f.off, "off", false, "leave the machines off, for an engine to power them on through their BMCs")
	flags.DurationVar((*time.Duration)(&faults.Delay), "bmc-delay", 0, "time that every answer of a BMC takes")
	flags.Var(&faults.Error, "bmc-error", "chance that a call of a BMC does nothing and is answered with 500, such as 1%")
	complete(cmd, "bmc", cobra.FixedCompletions(vendors, cobra.ShellCompDirectiveNoFileComp))
}

// apply adds the BMCs to the options of the machines.
func (f *simBMCFlags) apply(o *sim.Options, speed float64) error {
	if f.options.Vendor == "" {
		if f.off || f.caFile != "" || f.options.Systems != 1 {
			return &cli.UsageError{Err: errors.New("--off, --bmc-systems and --bmc-ca-file are for machines with --bmc")}
		}
		return nil
	}
	network, err := netip.ParsePrefix(f.network)
	if err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--bmc-network: want a network such as %s, got %q", hardware.LocalBMCNetwork, f.network)}
	}
	f.options.Network = network
	f.options.Times = bmc.RealisticTimes().Faster(speed)
	o.BMC = &f.options
	return nil
}

// serve starts the BMCs, and returns when they answer.
func (f *simBMCFlags) serve(ctx context.Context, machines *sim.Machines, cmd *cobra.Command) error {
	if f.options.Vendor == "" {
		return nil
	}
	if f.caFile != "" {
		if err := os.WriteFile(f.caFile, machines.Authority().PEM(), 0o644); err != nil { //nolint:gosec // a certificate is public
			return fmt.Errorf("write the certificate authority (--bmc-ca-file): %w", err)
		}
	}
	if err := machines.ServeBMCs(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "BMCs answer from %s on\n", machines.Machine(0).BMCURL())
	if f.options.IPMIPort > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "BMCs answer IPMI from %s on, over UDP\n", machines.Machine(0).IPMIAddress())
	}
	return nil
}
