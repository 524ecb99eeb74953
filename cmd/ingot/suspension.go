package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// newSuspensionCommand returns `ingot suspension` with its subcommands.
func newSuspensionCommand() *cobra.Command {
	cmd, c := newClientGroup(cli.Nodes, "suspension", "Show and resume work that the engine has suspended",
		`Show and resume work that the engine has suspended, because its database was
restored from an older state, or because many machines differ from what it has
stored. Until a person lets it go on, it observes, restores no power states, and
does only what somebody asks for now.`)
	cmd.AddCommand(
		c.showSuspended("show", "Show what is suspended, why and since when", cli.ShowSuspension),
		c.showSuspended("list", "List nodes with suspended work, and nodes whose power state differs", cli.ListSuspended),
	)
	resume := c.endSuspension("resume [NODE...]", "Let suspended work go on", cli.EndSuspension{Target: "resume", Done: "its work goes on"})
	resume.cmd.Long = `Let suspended work go on. Drivers are told that what the work does may have been
done already, and ask the machine first. With --all everything that is left goes
on, and power states are restored again.`
	resume.cmd.Flags().BoolVar(&resume.end.All, "all", false, "end the suspension: all work, and the restoring of power states")
	drop := c.endSuspension("drop NODE...", "Give suspended work up", cli.EndSuspension{Target: "drop", Done: "its work was given up"})
	drop.cmd.Long = "Give suspended work up: it fails, and nothing is done to the machine."
	cmd.AddCommand(resume.cmd, drop.cmd)
	return cmd
}

// showSuspended returns a command that prints something about suspended work.
func (c client) showSuspended(use, short string, show func(ctx context.Context, engine *ironic.Client, output cli.Output, out io.Writer) error) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use: use, Short: short, Args: none,
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, _ []string) error {
			return show(cmd.Context(), engine, output, cmd.OutOrStdout())
		}),
	}
	outputFlag(cmd, &output)
	return cmd
}

// suspensionEnd is a command that decides on suspended work.
type suspensionEnd struct {
	cmd *cobra.Command
	end *cli.EndSuspension
}

func (c client) endSuspension(use, short string, end cli.EndSuspension) suspensionEnd {
	return suspensionEnd{end: &end, cmd: &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs, ValidArgsFunction: c.names(0),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return end.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}}
}
