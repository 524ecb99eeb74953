package main

import (
	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// This file has the commands that all resources share.

func (c client) list() *cobra.Command {
	list := cli.List{Resource: c.resource}
	cmd := &cobra.Command{
		Use: "list", Short: "List " + c.resource.Many(), Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, _ []string) error {
			return list.Run(cmd.Context(), engine, cmd.OutOrStdout())
		}),
	}
	flags := cmd.Flags()
	list.Filters.AddFlags(flags, c.resource.Filters)
	flags.StringSliceVar(&list.Fields, "fields", nil, "fields to show, separated by commas")
	flags.BoolVar(&list.Long, "long", false, "show more fields")
	if c.resource.Paged {
		flags.StringVar(&list.Sort, "sort", "", "field to sort by, FIELD, FIELD:asc or FIELD:desc")
		flags.IntVar(&list.Limit, "limit", 0, "maximum number of "+c.resource.Many()+" to show; 0 for all")
		flags.StringVar(&list.Marker, "marker", "", "start after the one with this `UUID`")
	}
	outputFlag(cmd, &list.Output)
	c.completeFlags(cmd)
	return cmd
}

func (c client) show() *cobra.Command {
	show := cli.Show{Resource: c.resource}
	cmd := &cobra.Command{
		Use: "show " + c.argument(), Short: "Show " + c.resource.One(), Args: c.one, ValidArgsFunction: c.names(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return show.Run(cmd.Context(), engine, args[0], cmd.OutOrStdout())
		}),
	}
	if finder := c.resource.Finder; finder.Flag != "" {
		cmd.Flags().BoolVar(&show.Find, finder.Flag, false, finder.Help)
	}
	cmd.Flags().StringSliceVar(&show.Fields, "fields", nil, "fields to show, separated by commas")
	outputFlag(cmd, &show.Output)
	c.completeFlags(cmd)
	return cmd
}

func (c client) create() *cobra.Command {
	create := cli.Create{Resource: c.resource}
	cmd := &cobra.Command{Use: "create", Short: "Create " + c.resource.One(), Args: none, ValidArgsFunction: cobra.NoFileCompletions}
	create.Values.Stdin = stdin{cmd}
	first := c.resource.CreateArg
	if first != "" {
		cmd.Use, cmd.Args = "create ["+first+"]", cobra.MaximumNArgs(1)
	}
	cmd.RunE = c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
		if len(args) > 0 {
			create.Values.Add(first, args[0])
		}
		return create.Run(cmd.Context(), engine, streams(cmd))
	})
	create.Values.AddFlags(cmd.Flags(), cli.In(c.resource.Fields, cli.InCreate))
	outputFlag(cmd, &create.Output)
	if c.resource.Name == cli.Allocations.Name {
		waitFlag(cmd, &create.Wait, "the engine has found a node")
	}
	c.completeFlags(cmd)
	return cmd
}

func (c client) set() *cobra.Command {
	update := cli.Update{Resource: c.resource}
	cmd := c.update(&update, "set", "Set fields of "+c.resource.Many())
	update.Values.AddFlags(cmd.Flags(), cli.In(c.resource.Fields, cli.InSet))
	if c.resource.Name == cli.Nodes.Name {
		cmd.Flags().BoolVar(&update.ResetInterfaces, "reset-interfaces", false, "with --driver: reset every interface that is not given to the default of the driver")
	}
	c.completeFlags(cmd)
	return cmd
}

func (c client) unset() *cobra.Command {
	update := cli.Update{Resource: c.resource, Unset: true}
	cmd := c.update(&update, "unset", "Unset fields of "+c.resource.Many())
	update.Values.AddUnsetFlags(cmd.Flags(), cli.In(c.resource.Fields, cli.InUnset))
	return cmd
}

func (c client) update(update *cli.Update, name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " " + c.argument() + "...", Short: short, Args: c.some, ValidArgsFunction: c.names(0),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return update.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}
	update.Values.Stdin = stdin{cmd}
	return cmd
}

func (c client) delete() *cobra.Command {
	return &cobra.Command{
		Use: "delete " + c.argument() + "...", Short: "Delete " + c.resource.Many(), Args: c.some, ValidArgsFunction: c.names(0),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return cli.Delete(cmd.Context(), engine, c.resource, args, streams(cmd))
		}),
	}
}
