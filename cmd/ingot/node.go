package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/cli"
)

// nodeHelp is the part of the help that all node commands share.
const nodeHelp = `Show and change the nodes of a bare metal engine: Ingot's, or any other that
speaks the Bare Metal API.

Exit codes: 0 done, 1 error, 2 wrong usage, 3 not found, 4 node or engine is
busy, 5 engine does not answer.`

// newNodeCommand returns `ingot node` with its subcommands.
func newNodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Show and change nodes", Long: nodeHelp}
	connect, completion := clientFlags(cmd)
	inventory := &cobra.Command{Use: "inventory", Short: "Work with what inspection found"}
	inventory.AddCommand(newInventorySaveCommand(connect, completion))
	cmd.AddCommand(
		newNodeListCommand(connect, completion),
		newNodeShowCommand(connect, completion),
		newNodeDeleteCommand(connect, completion),
		newVerbCommand(connect, completion, baremetal.Manage, "Take nodes under management (to manageable)"),
		newVerbCommand(connect, completion, baremetal.Provide, "Offer nodes for deployment (to available)"),
		inventory,
	)
	return cmd
}

type connector func() (*baremetal.Client, error)

func newNodeListCommand(connect connector, completion cli.Completion) *cobra.Command {
	var list cli.NodeList
	cmd := &cobra.Command{
		Use: "list", Short: "List nodes", Args: cobra.NoArgs,
		Example: "  ingot node list --auto-discovered --provision-state enroll\n  ingot node list --sort updated_at:desc --limit 10 --long",
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := connect()
			if err != nil {
				return err
			}
			return list.Run(cmd.Context(), engine, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&list.AutoDiscovered, "auto-discovered", false, "only nodes that auto-discovery enrolled")
	flags.StringVar(&list.ProvisionState, "provision-state", "", "only nodes in this state, for instance \"clean wait\"")
	flags.StringVar(&list.Driver, "driver", "", "only nodes of this hardware type")
	flags.StringSliceVar(&list.Fields, "fields", nil, "fields to show, separated by commas")
	flags.BoolVar(&list.Long, "long", false, "show more fields")
	flags.StringVar(&list.Sort, "sort", "", "field to sort by, with :desc for the largest first")
	flags.IntVar(&list.Limit, "limit", 0, "show at most this many nodes, 0 for all")
	outputFlag(cmd, &list.Output)
	complete(cmd, "provision-state", cobra.FixedCompletions(cli.States(), cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "driver", completion.Drivers)
	complete(cmd, "fields", cli.CompleteFields)
	complete(cmd, "sort", cobra.FixedCompletions(cli.Fields(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newNodeShowCommand(connect connector, completion cli.Completion) *cobra.Command {
	var show cli.NodeShow
	cmd := &cobra.Command{
		Use: "show NODE", Short: "Show one node", Args: oneNode, ValidArgsFunction: completion.Nodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := connect()
			if err != nil {
				return err
			}
			return show.Run(cmd.Context(), engine, args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringSliceVar(&show.Fields, "fields", nil, "fields to show, separated by commas")
	outputFlag(cmd, &show.Output)
	complete(cmd, "fields", cli.CompleteFields)
	return cmd
}

func newNodeDeleteCommand(connect connector, completion cli.Completion) *cobra.Command {
	return &cobra.Command{
		Use: "delete NODE...", Short: "Remove nodes with their ports and inventory",
		Args: someNodes, ValidArgsFunction: completion.Nodes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := connect()
			if err != nil {
				return err
			}
			return cli.DeleteNodes(cmd.Context(), engine, args, streams(cmd))
		},
	}
}

func newVerbCommand(connect connector, completion cli.Completion, verb baremetal.Verb, short string) *cobra.Command {
	provision := cli.ProvisionNodes{Verb: verb}
	cmd := &cobra.Command{
		Use: string(verb) + " NODE...", Short: short, ValidArgsFunction: completion.Nodes(0),
		Args: func(cmd *cobra.Command, args []string) error {
			if provision.Wait.Asked && provision.Wait.Timeout == 0 {
				for _, arg := range args {
					if onlyDigits(arg) {
						return fmt.Errorf("write --wait=%s; %q would be taken for a node", arg, arg)
					}
				}
			}
			return someNodes(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := connect()
			if err != nil {
				return err
			}
			return provision.Run(cmd.Context(), engine, args, streams(cmd))
		},
	}
	cmd.Flags().Var(&provision.Wait, "wait", "wait until the nodes are there, at most for `seconds` if given")
	cmd.Flags().Lookup("wait").NoOptDefVal = cli.WaitForever
	return cmd
}

func newInventorySaveCommand(connect connector, completion cli.Completion) *cobra.Command {
	var save cli.InventorySave
	cmd := &cobra.Command{
		Use: "save NODE", Short: "Write a node's inventory as JSON",
		Long: "Write a node's inventory as JSON to standard output or to a file. An existing\nfile is left alone unless --force is given; the new one appears complete or not\nat all.",
		Args: oneNode, ValidArgsFunction: completion.Nodes(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := connect()
			if err != nil {
				return err
			}
			return save.Run(cmd.Context(), engine, args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&save.File, "file", "", "file to write, - for standard output")
	cmd.Flags().BoolVar(&save.Force, "force", false, "replace an existing file")
	return cmd
}

func streams(cmd *cobra.Command) cli.Streams {
	return cli.Streams{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}

func onlyDigits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return text != ""
}
