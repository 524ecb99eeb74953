package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// StrictUsage prepares a command tree for [Report]: what is wrong with flags
// and arguments becomes a [*UsageError], nothing is printed twice, and a
// word that names no command is an error, where cobra would print the help of
// the parent and end well.
func StrictUsage(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{err} })
	strict(root)
}

func strict(cmd *cobra.Command) {
	check := cmd.Args
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.SuggestionsMinimumDistance = 2
		check = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &UsageError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		return fmt.Errorf("%q has no command %q, did you mean %s", cmd.CommandPath(), args[0], strings.Join(similar, " or "))
	}
	return fmt.Errorf("%q has no command %q", cmd.CommandPath(), args[0])
}
