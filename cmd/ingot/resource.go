package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/cli"
	"github.com/ingot-metal/ingot/internal/ironic"
)

// exitCodesHelp is the part of the help that all client commands share.
const exitCodesHelp = `

Exit codes: 0 done, 1 error, 2 wrong usage, 3 not found, 4 node or engine busy,
5 engine does not answer, 6 still in progress after --wait, 130 interrupted.`

type connector func() (*ironic.Client, error)

// client has what the commands of one resource share.
type client struct {
	resource   cli.Resource
	connect    connector
	completion cli.Completion
}

// newClientGroup returns the command whose children are the commands of one resource.
func newClientGroup(resource cli.Resource, use, short, long string) (*cobra.Command, client) {
	cmd := &cobra.Command{Use: use, Short: short, Long: long + exitCodesHelp}
	connect, completion := clientFlags(cmd)
	return cmd, client{resource: resource, connect: connect, completion: completion}
}

// resources are the resources besides nodes, in the order of the help.
var resources = []struct {
	resource cli.Resource
	command  string // words of the command
	also     string // words that other clients use, if they differ
	short    string
	about    string
}{
	{cli.Ports, "port", "", "Show and change the network ports of nodes", "the network ports of nodes"},
	{cli.Portgroups, "portgroup", "port group", "Show and change port groups", "port groups, the bonded ports of nodes"},
	{cli.Chassis, "chassis", "", "Show and change chassis", "chassis, which group nodes"},
	{cli.Allocations, "allocation", "", "Show and change allocations", "allocations, which find nodes for instances"},
	{cli.Runbooks, "runbook", "", "Show and change runbooks", "runbooks, named lists of steps for cleaning and servicing"},
	{cli.DeployTemplates, "deploy template", "", "Show and change deploy templates", "deploy templates, steps that the traits of an instance add to its deployment"},
	{cli.VolumeConnectors, "volume connector", "", "Show and change volume connectors", "volume connectors, the addresses of nodes in a storage network"},
	{cli.VolumeTargets, "volume target", "", "Show and change volume targets", "volume targets, remote volumes that nodes boot from"},
}

// addResourceCommands adds the groups of commands for every resource but nodes.
func addResourceCommands(root *cobra.Command) {
	for _, row := range resources {
		for _, add := range []struct {
			words string
			to    func(*cobra.Command, string, *cobra.Command)
		}{{row.command, addAt}, {row.also, addAlso}} {
			cmd, c := newClientGroup(row.resource, lastWord(row.command), row.short, "Show and change "+row.about+".")
			cmd.AddCommand(c.list(), c.show(), c.create(), c.set(), c.unset(), c.delete())
			add.to(root, add.words, cmd)
		}
	}
	drivers, c := newClientGroup(cli.Drivers, "driver", "Show drivers", "Show the drivers (hardware types) that the engine has enabled.")
	drivers.AddCommand(c.list(), c.show())
	c.addViews(drivers)
	addAt(drivers, "passthru call", c.passthru())
	conductors, c := newClientGroup(cli.Conductors, "conductor", "Show conductors", "Show the conductors: the engine processes that manage nodes.")
	conductors.AddCommand(c.list(), c.show())
	shards, c := newClientGroup(cli.Shards, "shard", "Show shards", "Show the shards and the number of nodes in each.")
	shards.AddCommand(c.list())
	root.AddCommand(drivers, conductors, shards, newCreateCommand())
}

// newCreateCommand returns `ingot create`, which needs no resource of its own.
func newCreateCommand() *cobra.Command {
	var create cli.CreateFiles
	cmd := &cobra.Command{
		Use: "create FILE...", Short: "Create nodes, chassis and ports from files",
		Long: `Create chassis, nodes, ports and port groups from YAML or JSON files, or from
standard input for -. A file has the lists chassis and nodes, whose fields are
those of the API. A chassis may have a list of nodes, a node lists of ports and
portgroups, and a port group a list of ports.` + exitCodesHelp,
		Example: "  ingot create rack1.yaml",
		Args:    cobra.MinimumNArgs(1),
	}
	connect, _ := clientFlags(cmd)
	create.Stdin = stdin{cmd}
	cmd.RunE = client{connect: connect}.onEngine(func(cmd *cobra.Command, engine *ironic.Client, args []string) error {
		return create.Run(cmd.Context(), engine, args, streams(cmd))
	})
	return cmd
}

// one and some check the arguments of commands about one object and about several objects.
func (c client) one(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one %s, got %d", c.resource.Name, len(args))
	}
	return noneEmpty(args)
}

// noneEmpty refuses empty arguments, because they usually come from unset variables in a script.
func noneEmpty(args []string) error {
	if at := slices.Index(args, ""); at >= 0 {
		return fmt.Errorf("argument %d is empty", at+1)
	}
	return nil
}

// none refuses all arguments.
func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("the command takes no arguments, got %q", args[0])
	}
	return nil
}

// oneAnd checks the arguments of a command about a part of one object.
func (c client) oneAnd(arg string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("name one %s and one %s, got %d arguments", c.resource.Name, strings.ToLower(arg), len(args))
		}
		return noneEmpty(args)
	}
}

func (c client) some(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name at least one %s", c.resource.Name)
	}
	return noneEmpty(args)
}

// argument is the name of the object in help texts.
func (c client) argument() string { return strings.ToUpper(lastWord(c.resource.Name)) }

// names returns the completion of at most limit arguments; 0 means any number.
func (c client) names(limit int) cobra.CompletionFunc {
	if c.resource.Name == cli.Nodes.Name {
		return c.completion.Nodes(limit)
	}
	return c.completion.Names(c.resource, limit)
}

// onEngine returns the run function of a command that needs a connection to the engine.
func (c client) onEngine(run func(cmd *cobra.Command, engine *ironic.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		engine, err := c.connect()
		if err != nil {
			return err
		}
		return run(cmd, engine, args)
	}
}

// completeFlags registers completions for the flags of cmd whose possible values are
// known.
func (c client) completeFlags(cmd *cobra.Command) {
	fixed := func(words []string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	known := map[string]cobra.CompletionFunc{
		"driver": c.completion.Drivers,
		"fields": cli.CompleteList(c.resource.Long), // an engine may have more fields
		"sort":   fixed(c.resource.Long),
		"node":   c.completion.Nodes(0),
	}
	for _, f := range slices.Concat(c.resource.Fields, c.resource.Filters) {
		switch {
		case f.Choices != nil:
			known[f.Flag] = fixed(f.Choices)
		case f.Kind == cli.NodeID:
			known[f.Flag] = c.completion.Nodes(0)
		}
	}
	for flag, f := range known {
		if cmd.Flags().Lookup(flag) != nil {
			complete(cmd, flag, f)
		}
	}
}

// stdin reads from the command's standard input. Tests may set that input after the command is
// built.
type stdin struct{ cmd *cobra.Command }

// Read reads from the present standard input of the command.
func (s stdin) Read(p []byte) (int, error) { return s.cmd.InOrStdin().Read(p) }

func streams(cmd *cobra.Command) cli.Streams {
	return cli.Streams{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()}
}

// waitFlag adds --wait to cmd. It also makes the check of arguments refuse a number or a duration,
// because such an argument was probably meant as the value of --wait.
func waitFlag(cmd *cobra.Command, wait *cli.Wait, until string) {
	cmd.Flags().Var(wait, "wait", "wait until "+until+"; for at most `seconds` if given")
	cmd.Flags().Lookup("wait").NoOptDefVal = cli.WaitForever
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if at := slices.IndexFunc(args, isTime); wait.Asked && wait.Timeout == 0 && at >= 0 {
			return fmt.Errorf("write --wait=%[1]s; %[1]q would be taken for a name", args[at])
		}
		return check(cmd, args)
	}
}

// isTime reports whether --wait would accept a text as its time.
func isTime(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil || text != "" && strings.Trim(text, "0123456789") == ""
}
