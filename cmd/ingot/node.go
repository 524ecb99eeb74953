package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// nodeHelp is the description of the node commands.
const nodeHelp = `Show and change the nodes of a bare metal engine: Ingot's, or any other that
implements the Bare Metal API.`

// newNodeCommand returns `ingot node` with its subcommands.
func newNodeCommand() *cobra.Command {
	cmd, c := newClientGroup(cli.Nodes, "node", "Show and change nodes", nodeHelp)
	list := c.list()
	list.Example = "  ingot node list --auto-discovered --provision-state enroll\n  ingot node list --sort updated_at:desc --limit 10 --long"
	remove := c.delete()
	remove.Short = "Delete nodes and everything that belongs to them"
	create := c.create()
	create.Example = "  ingot node create --driver redfish --name rack1-7 \\\n    --driver-info redfish_address=https://192.0.2.7 --driver-info redfish_username=admin"
	cmd.AddCommand(list, c.show(), create, c.set(), c.unset(), remove, c.wait())
	for _, verb := range cli.Verbs() {
		cmd.AddCommand(c.verb(verb))
	}
	for _, action := range cli.NodeActions() {
		addAt(cmd, action.Command, c.action(action))
		addAlso(cmd, action.Also, c.action(action))
	}
	c.addViews(cmd)
	addAt(cmd, "passthru call", c.passthru())
	addAt(cmd, "inventory save", c.saveInventory())
	addAt(cmd, "inventory show", c.showInventory())
	return cmd
}

// verb returns the command that changes the provision state of nodes.
func (c client) verb(verb cli.Verb) *cobra.Command {
	provision := cli.ProvisionNodes{Verb: verb}
	cmd := &cobra.Command{
		Use: verb.Name + " NODE...", Short: verb.Short, Args: c.some, ValidArgsFunction: c.names(0),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return provision.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}
	provision.Values.Stdin = stdin{cmd}
	provision.Values.AddFlags(cmd.Flags(), verb.Fields)
	provision.Instance.AddFlags(cmd.Flags(), verb.Instance)
	waitFlag(cmd, &provision.Wait, "the nodes have reached the state")
	return cmd
}

// wait returns the command that waits for a state, whichever request leads to it.
func (c client) wait() *cobra.Command {
	var wait cli.NodeWait
	cmd := &cobra.Command{
		Use: "wait NODE...", Short: "Wait until nodes are in a provision state", Args: c.some, ValidArgsFunction: c.names(0),
		Long:    "Wait until nodes are in a provision state, whichever request leads to it, and show\nthe states in between. A node that fails or is held ends the wait with an error.",
		Example: "  ingot node wait rack1-7 --state active --timeout 30m",
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return wait.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}
	cmd.Flags().StringVar(&wait.State, "state", "", "provision state to wait for, for instance active")
	cmd.Flags().Var(&wait.Wait, "timeout", "wait for at most `seconds`, or a time such as 30m")
	complete(cmd, "state", cobra.FixedCompletions(cli.States(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// saveInventory returns the command that writes an inventory to a file.
func (c client) saveInventory() *cobra.Command {
	var save cli.InventorySave
	cmd := &cobra.Command{
		Use: "save NODE", Short: "Save the inventory of a node as JSON",
		Long: "Write the inventory of a node as JSON to standard output or to a file. An\nexisting file is replaced atomically.",
		Args: c.one, ValidArgsFunction: c.names(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return save.Run(cmd.Context(), engine, args[0], cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&save.File, "file", "", "file to write, - for standard output")
	return cmd
}

// showInventory returns the command that prints the sections of an inventory.
func (c client) showInventory() *cobra.Command {
	var show cli.InventoryShow
	cmd := &cobra.Command{
		Use: "show NODE", Short: "Show the inventory of a node by section", Args: c.one, ValidArgsFunction: c.names(1),
		Example: "  ingot node inventory show rack1-7 --section disks,interfaces",
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return show.Run(cmd.Context(), engine, args[0], cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringSliceVar(&show.Sections, "section", nil, "sections to show, separated by commas (default: all but pci, numa, extra and plugin)")
	outputFlag(cmd, &show.Output)
	complete(cmd, "section", cli.CompleteList(cli.InventorySections()))
	return cmd
}
