package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// clientFlags adds the flags for the connection to the engine to a client command and
// its children. It returns a function that connects after the flags are parsed, and
// the completion of arguments.
func clientFlags(cmd *cobra.Command) (connect func() (*ironic.Client, error), completion cli.Completion) {
	connection := new(cli.Connection)
	connection.AddFlags(cmd.PersistentFlags())
	connect = func() (*ironic.Client, error) { return connection.Client(os.Getenv, 0) }
	completion.Connect = func(timeout time.Duration) (*ironic.Client, error) {
		return connection.Client(os.Getenv, timeout)
	}
	return connect, completion
}

// outputFlag adds -o to cmd.
func outputFlag(cmd *cobra.Command, output *cli.Output) {
	*output = cli.OutputTable
	cmd.Flags().VarP(output, "output", "o", "output format: table, json, yaml, value or name")
	complete(cmd, "output", cobra.FixedCompletions(cli.Outputs(), cobra.ShellCompDirectiveNoFileComp))
}

// complete registers how a flag is completed. That fails only for a flag that cmd does not have,
// which is a mistake in this program.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// oneNode checks the arguments of a command about one node.
func oneNode(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one node, got %d", len(args))
	}
	return noneEmpty(args)
}
