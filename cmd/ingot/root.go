package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
)

// newRootCommand puts the subcommands together.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ingot",
		Short:         "Turn racks of bare machines into Kubernetes capacity",
		Args:          cobra.ArbitraryArgs, // markUsageErrors names an unknown command
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	version := root.Flags().Bool("version", false, "show the version of ingot")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.FlagError(err) })
	root.AddCommand(
		newUpCommand(), newEngineCommand(), newOperatorCommand(), newPXEFilterCommand(), newSimCommand(),
		newNodeCommand(), newExplainCommand(), newBMCCommand(), newSuspensionCommand(), newVersionCommand(),
	)
	addResourceCommands(root)
	markUsageErrors(root)
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return showVersion(cmd)
		}
		return run(cmd, args)
	}
	return root
}

// markUsageErrors turns errors about the arguments of cmd and all its subcommands into usage
// errors.
func markUsageErrors(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &cli.UsageError{Err: fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
			}
			return nil
		}
	}
	if cmd.HasSubCommands() && cmd.RunE == nil && cmd.Run == nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &cli.UsageError{Err: unknownCommand(cmd, args[0])}
			}
			return cmd.Help()
		}
	}
	for _, child := range cmd.Commands() {
		markUsageErrors(child)
	}
}

// typos is how many letters of a mistyped command may be wrong for the command to be suggested.
const typos = 2

// unknownCommand returns the error for a command that the group does not have, with
// suggestions.
func unknownCommand(group *cobra.Command, word string) error {
	group.SuggestionsMinimumDistance = typos
	guess := ""
	if meant := group.SuggestionsFor(word); len(meant) > 0 {
		guess = "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", word, group.CommandPath(), guess)
}

// logFlags are the flags for the log of a service.
type logFlags struct{ level, format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "info", "lowest level to log: debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", "text", "log format: text or json")
}

// logger returns a logger as the flags say.
func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--log-level: want debug, info, warn or error, got %q", f.level)}
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, &cli.UsageError{Err: errors.New("--log-format: want text or json, got " + f.format)}
}
