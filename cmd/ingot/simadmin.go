package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/sim"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

const adminHeaderTimeout = 10 * time.Second

// serveAdmin serves what testers need, unless the address is empty. It returns when the server
// answers; stop ends the server.
func serveAdmin(ctx context.Context, address string, machines *sim.Machines, progress io.Writer) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve what was done (--admin): %w", err)
	}
	fmt.Fprintf(progress, "What was done is at http://%s/effects\n", listener.Addr())
	server := &http.Server{Handler: machines.AdminHandler(), ReadHeaderTimeout: adminHeaderTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-ended
	}, nil
}

// addAgentFaults adds the flags for faults of all agents.
func addAgentFaults(cmd *cobra.Command, faults *effect.AgentFaults) {
	flags := cmd.Flags()
	flags.IntVar(&faults.CrashAt, "agent-crash-at", 0, "number of the command, since it started, during which an agent crashes and starts again; 0 means none")
	flags.Var(&faults.Crash, "agent-crash", "chance that an agent crashes during a command and starts again, such as 1%")
	flags.Var(&faults.Vanish, "agent-vanish", "chance that an agent falls silent during a command, until the next power cycle")
	flags.Var(&faults.NeverEnd, "agent-never-end", "chance that a command never ends")
	flags.Var(&faults.Fail, "agent-fail", "chance that a command fails")
	flags.Var(&faults.BadChecksum, "agent-bad-checksum", "chance that an image has another checksum")
	flags.Var(&faults.DiskFull, "agent-disk-full", "chance that a disk is full while an image is written")
	flags.StringSliceVar(&faults.Commands, "agent-fault-commands", nil, "commands or steps that these faults are limited to, such as write_image,standby.run_image")
	flags.IntVar(&faults.Times, "agent-fault-times", 0, "how often a machine meets these faults; 0 means always")
}
