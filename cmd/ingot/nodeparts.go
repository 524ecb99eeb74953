package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// groups are the descriptions of groups of commands, by name. They are the same under
// ingot, ingot node and ingot driver.
var groups = map[string]string{
	"add": "Add traits to nodes", "remove": "Remove traits from nodes",
	"bios": "Show BIOS settings", "bios setting": "Show BIOS settings",
	"boot": "Show and set boot devices and boot modes", "boot device": "Show and set boot devices", "boot mode": "Set boot modes",
	"child": "Show child nodes", "children": "Show child nodes",
	"console":       "Show, enable and disable consoles",
	"deploy":        "Show and change deploy templates",
	"firmware":      "Show firmware versions",
	"history":       "Show the history of nodes",
	"inject":        "Send interrupts to nodes",
	"inventory":     "Show and save hardware inventories",
	"maintenance":   "Put nodes into maintenance and take them out of it",
	"passthru":      "Call vendor methods of drivers",
	"power":         "Power nodes on and off",
	"property":      "Show the settings of drivers",
	"raid":          "Show and set RAID configurations",
	"raid property": "Show RAID properties",
	"secure":        "Enable and disable secure boot", "secure boot": "Enable and disable secure boot",
	"trait":  "Show and change traits",
	"vif":    "Attach and detach virtual interfaces",
	"vmedia": "Attach and detach virtual media",
	"volume": "Show and change volume connectors and targets",
}

// addAt adds a command below parent under the given words. The last word is the name of the
// command. The others are groups, which addAt creates if necessary.
func addAt(parent *cobra.Command, words string, cmd *cobra.Command) {
	all := strings.Fields(words)
	for i := range len(all) - 1 {
		parent = group(parent, all[i], groups[strings.Join(all[:i+1], " ")])
		parent.Hidden = parent.Hidden && cmd.Hidden
	}
	parent.AddCommand(cmd)
}

// addAlso adds a command a second time, under the words that other clients use. Help texts do not
// show it. Without words it does nothing.
func addAlso(parent *cobra.Command, words string, cmd *cobra.Command) {
	if words == "" {
		return
	}
	cmd.Hidden = true
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	cmd.Use = strings.TrimSpace(lastWord(words) + " " + arguments)
	addAt(parent, words, cmd)
}

// group returns the child of parent with that name, and creates it if necessary. A group is hidden
// as long as all its commands are.
func group(parent *cobra.Command, name, short string) *cobra.Command {
	for _, child := range parent.Commands() {
		if child.Name() == name {
			return child
		}
	}
	child := &cobra.Command{Use: name, Short: short, Hidden: true}
	parent.AddCommand(child)
	return child
}

func lastWord(words string) string { return words[strings.LastIndex(words, " ")+1:] }

// addViews adds the commands that read parts of an object.
func (c client) addViews(parent *cobra.Command) {
	for _, view := range c.resource.Views() {
		addAt(parent, view.Command, c.view(view))
		addAlso(parent, view.Also, c.view(view))
	}
}

// view returns the command that reads a part of an object.
func (c client) view(view cli.View) *cobra.Command {
	read := cli.Read{View: view, Of: c.resource}
	instead := false
	cmd := &cobra.Command{
		Use: lastWord(view.Command) + " " + c.argument(), Short: view.Short, Args: c.one, ValidArgsFunction: c.names(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			if instead {
				read.View = view.Instead.View
			}
			return read.Run(cmd.Context(), engine, args, cmd.OutOrStdout())
		}),
	}
	if view.Arg != "" {
		cmd.Use, cmd.Args = cmd.Use+" "+view.Arg, c.oneAnd(view.Arg)
	}
	if view.Long != nil {
		cmd.Flags().BoolVar(&read.Long, "long", false, "show more fields")
	}
	if view.Chosen {
		cmd.Flags().StringSliceVar(&read.Fields, "fields", nil, "fields to show, separated by commas")
		complete(cmd, "fields", cli.CompleteList(view.Long))
	}
	if view.Instead != nil {
		cmd.Flags().BoolVar(&instead, view.Instead.Flag, false, view.Instead.Help)
	}
	outputFlag(cmd, &read.Output)
	return cmd
}

// passthru returns the command that calls a vendor method.
func (c client) passthru() *cobra.Command {
	call := cli.Passthru{Of: c.resource}
	cmd := &cobra.Command{
		Use: "call " + c.argument() + " METHOD", Short: "Call a vendor method",
		Args: c.oneAnd("METHOD"), ValidArgsFunction: c.names(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return call.Run(cmd.Context(), engine, args[0], args[1], streams(cmd))
		}),
	}
	call.Arguments.AddFlags(cmd.Flags(), cli.PassthruFields)
	cmd.Flags().StringVar(&call.HTTPMethod, "http-method", "", "HTTP method: POST (default), PUT, PATCH, GET or DELETE")
	outputFlag(cmd, &call.Output)
	return cmd
}

// action returns the command that makes one request about nodes.
func (c client) action(action cli.Action) *cobra.Command {
	act := cli.ActOnNodes{Action: action}
	limit := 0
	if len(action.Args) > 0 {
		limit = 1
	}
	cmd := &cobra.Command{
		Use: lastWord(action.Command) + " " + action.Usage(), Short: action.Short, Args: c.some, ValidArgsFunction: c.names(limit),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
			return act.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}
	act.Values.Stdin = stdin{cmd}
	act.Values.AddFlags(cmd.Flags(), action.Fields)
	if action.All {
		cmd.Flags().BoolVar(&act.Everything, "all", false, "remove all traits")
	}
	if action.Power != "" {
		waitFlag(cmd, &act.Wait, "the power state has changed")
	}
	return cmd
}
