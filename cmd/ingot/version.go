package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/buildinfo"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// newVersionCommand returns `ingot version`, which prints what --version prints.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of ingot",
		Long: `Show the version of ingot, the commit and the Go version it was built with, and
the microversions of the Bare Metal API that its client commands can use.`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return showVersion(cmd) },
	}
}

// showVersion serves --version too. The version of cobra itself is a template, and with templates
// the linker keeps every method of every type, which is 17 MB more.
func showVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprint(cmd.OutOrStdout(), versionText(buildinfo.Read()))
	return err
}

// versionText returns a line for each fact that is known.
func versionText(info buildinfo.Info) string {
	var b strings.Builder
	line := func(name, value string) {
		if value == "" {
			value = "unknown"
		}
		fmt.Fprintf(&b, "%-20s %s\n", name, value)
	}
	commit := info.Commit
	if info.Modified {
		commit += " with changes"
	}
	oldest, newest := ironic.Microversions()
	line("Version:", info.Version)
	line("Commit:", commit)
	line("Go:", info.Go)
	line("API microversions:", oldest+" to "+newest)
	return b.String()
}
