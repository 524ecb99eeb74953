package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/cli"
)

// groups are the words between a command and those above it.
// They are the same where drivers or the root have them.
var groups = map[string]string{
	"add": "Add traits", "remove": "Remove traits",
	"bios": "Show BIOS settings", "bios setting": "Show BIOS settings",
	"boot": "Choose what nodes boot from and how", "boot device": "Choose what nodes boot from", "boot mode": "Choose how nodes boot",
	"child": "Show the parts of a node that are nodes", "children": "Show the parts of a node that are nodes",
	"console":       "Switch consoles on and off",
	"deploy":        "Say how nodes are deployed",
	"firmware":      "Show firmware",
	"history":       "Show what happened",
	"inject":        "Interrupt nodes",
	"inventory":     "Work with what inspection found",
	"maintenance":   "Put nodes into maintenance and take them out",
	"passthru":      "Call what drivers can do beyond the API",
	"power":         "Switch nodes on and off",
	"property":      "Show what a driver wants to know",
	"raid":          "Say which RAID nodes have",
	"raid property": "Show what a RAID may be given",
	"secure":        "Switch secure boot", "secure boot": "Switch secure boot",
	"trait":  "Show and change traits",
	"vif":    "Attach and detach virtual interfaces",
	"vmedia": "Insert and eject virtual media",
	"volume": "Show and change volumes that nodes boot from",
}

// addAt adds a command below parent at the place that its words say, with the
// groups that it needs on the way.
func addAt(parent *cobra.Command, words string, cmd *cobra.Command) {
	all := strings.Fields(words)
	for i := range len(all) - 1 {
		parent = group(parent, all[i], groups[strings.Join(all[:i+1], " ")])
		parent.Hidden = parent.Hidden && cmd.Hidden
	}
	parent.AddCommand(cmd)
}

// addAlso adds a command once more at a place that users of other clients
// know; help texts do not show it. Without words it does nothing.
func addAlso(parent *cobra.Command, words string, cmd *cobra.Command) {
	if words == "" {
		return
	}
	cmd.Hidden = true
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	cmd.Use = strings.TrimSpace(lastWord(words) + " " + arguments)
	addAt(parent, words, cmd)
}

// group is the child of parent of that name, made when it is not there. It is
// hidden until a command that is not comes below it.
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

// addViews adds the commands that read parts of a thing.
func (c client) addViews(parent *cobra.Command) {
	for _, view := range c.resource.Views() {
		addAt(parent, view.Command, c.view(view))
		addAlso(parent, view.Also, c.view(view))
	}
}

// view is the command that reads a part of a thing.
func (c client) view(view cli.View) *cobra.Command {
	read := cli.Read{View: view, Of: c.resource}
	instead := false
	cmd := &cobra.Command{
		Use: lastWord(view.Command) + " " + c.argument(), Short: view.Short, Args: c.one, ValidArgsFunction: c.things(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *baremetal.Client, args []string) error {
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

// passthru is the command that calls what a driver can do beyond the API.
func (c client) passthru() *cobra.Command {
	call := cli.Passthru{Of: c.resource}
	cmd := &cobra.Command{
		Use: "call " + c.argument() + " METHOD", Short: "Call a method that a driver has beyond the API",
		Args: c.oneAnd("METHOD"), ValidArgsFunction: c.things(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *baremetal.Client, args []string) error {
			return call.Run(cmd.Context(), engine, args[0], args[1], streams(cmd))
		}),
	}
	call.Arguments.AddFlags(cmd.Flags(), cli.PassthruFields)
	cmd.Flags().StringVar(&call.HTTPMethod, "http-method", "", "how it is called: POST (default), PUT, PATCH, GET or DELETE")
	outputFlag(cmd, &call.Output)
	return cmd
}

// action is the command that makes one request about nodes.
func (c client) action(action cli.Action) *cobra.Command {
	act := cli.Act{Action: action}
	limit := 0
	if len(action.Args) > 0 {
		limit = 1
	}
	cmd := &cobra.Command{
		Use: lastWord(action.Command) + " " + action.Usage(), Short: action.Short, Args: c.some, ValidArgsFunction: c.things(limit),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *baremetal.Client, args []string) error {
			return act.Run(cmd.Context(), engine, args, streams(cmd))
		}),
	}
	act.Values.Stdin = stdin{cmd}
	act.Values.AddFlags(cmd.Flags(), action.Fields)
	if action.All {
		cmd.Flags().BoolVar(&act.Everything, "all", false, "all of them")
	}
	if action.Power != "" {
		waitFlag(cmd, &act.Wait, "it is done")
	}
	return cmd
}
