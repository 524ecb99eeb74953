package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/sim/effect"
)

// newFakeMachinesCommand returns `ingot sim fake-machines`.
func newFakeMachinesCommand() *cobra.Command {
	var flags fakeMachinesFlags
	cmd := &cobra.Command{
		Use:   "fake-machines",
		Short: "Serve machines for nodes of fake hardware that remember what was done to them",
		Long: `Serve any number of machines over HTTP for nodes of fake hardware. A node uses one
when its driver_info.fake_machine is a URL http://ADDRESS/machines/NAME; a machine
comes into being when it is first spoken to. Each keeps its power state, its tasks and
a log of everything that was done to it, and by whom. The flags let machines fail; the
faults of single machines are set over HTTP. Whoever reaches the address may do
everything, so keep it on loopback. Ctrl-C ends it and prints what was done.`,
		Example: "  ingot sim fake-machines --delay 300ms --hang 1% --task-time 10s\n" +
			"  baremetal node create --driver fake-hardware --driver-info fake_machine=http://127.0.0.1:8099/machines/m1\n" +
			"  curl http://127.0.0.1:8099/machines/m1/effects",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.Context(), cmd) },
	}
	f, faults := cmd.Flags(), &flags.options.Faults
	f.StringVar(&flags.listen, "listen", "127.0.0.1:8099", "address to answer on; port 0 takes a free one")
	f.DurationVar((*time.Duration)(&faults.Delay), "delay", 0, "time that every answer to an engine takes")
	f.Var(&faults.Hang, "hang", "chance that a call does nothing and is never answered, such as 1%")
	f.Var(&faults.Refuse, "refuse", "chance that a call does nothing and is answered with 409")
	f.Var(&faults.Error, "error", "chance that a call does nothing and is answered with 500")
	f.Var(&faults.LoseAnswer, "lose-answer", "chance that a call does what it asks for and is never answered")
	f.Var(&faults.Lie, "lie", "chance that a call does nothing and is answered with success")
	f.DurationVar((*time.Duration)(&faults.TaskTime), "task-time", 0, "time that long effects take, such as writing an image")
	f.Var(&faults.FailTask, "fail-task", "chance that an effect fails at its end")
	f.Uint64Var(&flags.options.Seed, "seed", 1, "number that decides which calls fail")
	f.IntVar(&flags.options.Keep, "keep", 500_000, "number of calls to keep in the log over all machines, the newest ones")
	return cmd
}

type fakeMachinesFlags struct {
	listen  string
	options effect.Options
}

func (f *fakeMachinesFlags) run(ctx context.Context, cmd *cobra.Command) error {
	if f.options.Faults.Delay < 0 || f.options.Faults.TaskTime < 0 || f.options.Keep < 1 {
		return &cli.UsageError{Err: errors.New("--delay and --task-time must not be negative and --keep must be positive")}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("serve fake machines (--listen): %w", err)
	}
	machines := effect.New(f.options)
	fmt.Fprintf(cmd.ErrOrStderr(), "Machines answer at http://%s/machines/NAME\n", listener.Addr())
	if err := machines.Serve(ctx, listener); err != nil {
		return fmt.Errorf("serve fake machines: %w", err)
	}
	printTotals(cmd.OutOrStdout(), machines.Totals())
	return nil
}

// printTotals prints what was done to machines.
func printTotals(w io.Writer, done effect.Totals) {
	fmt.Fprintf(w, "%d effects on %d machines\n", done.Effects, done.Machines)
	for _, kind := range slices.Sorted(maps.Keys(done.Kinds)) {
		fmt.Fprintf(w, "%-15s %d\n", kind, done.Kinds[kind])
	}
}
