package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/baremetal"
	"github.com/ingot-metal/ingot/internal/cli"
)

// groups are the words between `ingot node` and a command.
var groups = map[string]string{
	"bios": "Show BIOS settings", "bios setting": "Show BIOS settings",
	"boot": "Choose what nodes boot from and how", "boot device": "Choose what nodes boot from", "boot mode": "Choose how nodes boot",
	"child":       "Show the parts of a node that are nodes",
	"firmware":    "Show firmware",
	"history":     "Show what happened",
	"inject":      "Interrupt nodes",
	"inventory":   "Work with what inspection found",
	"maintenance": "Put nodes into maintenance and take them out",
	"passthru":    "Show what vendors add",
	"power":       "Switch nodes on and off",
	"secure":      "Switch secure boot", "secure boot": "Switch secure boot",
	"trait":  "Show and change traits",
	"vif":    "Attach and detach virtual interfaces",
	"vmedia": "Insert and eject virtual media",
}

// addAt adds a command below parent at the place that its words say, with the
// groups that it needs on the way.
func addAt(parent *cobra.Command, words string, cmd *cobra.Command) {
	all := strings.Fields(words)
	for i := range len(all) - 1 {
		parent = group(parent, all[i], groups[strings.Join(all[:i+1], " ")])
	}
	parent.AddCommand(cmd)
}

// group is the child of parent of that name, made when it is not there.
func group(parent *cobra.Command, name, short string) *cobra.Command {
	for _, child := range parent.Commands() {
		if child.Name() == name {
			return child
		}
	}
	child := &cobra.Command{Use: name, Short: short}
	parent.AddCommand(child)
	return child
}

func lastWord(words string) string { return words[strings.LastIndex(words, " ")+1:] }

// view is the command that reads a part of a thing.
func (c client) view(view cli.View) *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use: lastWord(view.Command) + " " + c.argument(), Short: view.Short, Args: c.one, ValidArgsFunction: c.things(1),
		RunE: c.onEngine(func(cmd *cobra.Command, engine *baremetal.Client, args []string) error {
			return view.Run(cmd.Context(), engine, args, output, cmd.OutOrStdout())
		}),
	}
	if view.Arg != "" {
		cmd.Use += " " + view.Arg
		cmd.Args = func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name one %s and one %s, got %d arguments", c.resource.Name, strings.ToLower(view.Arg), len(args))
			}
			return nil
		}
	}
	outputFlag(cmd, &output)
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
