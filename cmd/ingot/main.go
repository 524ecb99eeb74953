// Command ingot turns racks of bare machines into Kubernetes capacity. It is the
// engine, the operator, the simulator and their client in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/ingot-metal/ingot/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if code := cli.Report(os.Stderr, newRootCommand().ExecuteContext(ctx)); code != 0 {
		stop()
		os.Exit(code)
	}
}
