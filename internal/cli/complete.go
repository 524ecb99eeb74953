package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ingot-metal/ingot/internal/ironic"
	"github.com/ingot-metal/ingot/internal/node"
)

const (
	// completionTimeout is how long a person who pressed TAB waits at most.
	completionTimeout = 2 * time.Second
	// maxCompletions is the largest number of nodes to suggest.
	maxCompletions = 500
)

// Completion suggests arguments to shells. It prints no errors: if it cannot reach an engine it
// suggests nothing.
type Completion struct {
	// Connect returns the client; it is called when TAB is pressed.
	Connect func(timeout time.Duration) (*ironic.Client, error)
}

// Nodes suggests the names and UUIDs of nodes that are not among args yet, with their state as
// description. The UUID of a node that has a name is suggested only after its beginning was typed.
// At most limit arguments are completed; 0 means any number.
func (c Completion) Nodes(limit int) cobra.CompletionFunc {
	return c.fromEngine(limit, func(ctx context.Context, engine *ironic.Client, args []string, begun string) (found []cobra.Completion) {
		query := ironic.NodeQuery{Fields: []string{"uuid", "name", "provision_state"}}
		for n, err := range engine.Nodes(ctx, query) {
			if err != nil || len(found) == maxCompletions {
				break
			}
			word := suggestion(n, begun)
			if word != "" && !slices.Contains(args, word) {
				found = append(found, cobra.CompletionWithDesc(word, printable(n.ProvisionState)))
			}
		}
		return found
	})
}

// fromEngine suggests objects of the engine, unless there are already limit arguments; 0 means no
// limit. If it cannot reach an engine it suggests nothing.
func (c Completion) fromEngine(limit int, suggest func(ctx context.Context, engine *ironic.Client, args []string, begun string) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if limit > 0 && len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, engine, cancel, err := c.connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cancel()
		return suggest(ctx, engine, args, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// HostsAndNodes suggests one argument: the hosts that hosts returns before its context ends, and
// the engine's nodes.
func (c Completion) HostsAndNodes(hosts func(context.Context) []string) cobra.CompletionFunc {
	nodes := c.Nodes(1)
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := nodes(cmd, args, begun)
		if len(args) > 0 {
			return found, directive
		}
		ctx, cancel := context.WithTimeout(commandContext(cmd), completionTimeout)
		defer cancel()
		for _, name := range hosts(ctx) {
			if strings.HasPrefix(name, begun) {
				found = append(found, cobra.CompletionWithDesc(name, "host"))
			}
		}
		return found, directive
	}
}

// suggestion returns the name or the UUID of n that continues begun, or "". It does not suggest a
// name with characters that are special to the shell.
func suggestion(n ironic.Node, begun string) string {
	switch {
	case n.Name != "" && strings.HasPrefix(n.Name, begun) && !strings.ContainsFunc(n.Name, active):
		return n.Name
	case strings.HasPrefix(n.UUID, begun) && (n.Name == "" || begun != ""):
		return n.UUID
	}
	return ""
}

// Drivers suggests the engine's hardware types.
func (c Completion) Drivers(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, engine, cancel, err := c.connect(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cancel()
	names, _ := engine.DriverNames(ctx)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (c Completion) connect(cmd *cobra.Command) (context.Context, *ironic.Client, context.CancelFunc, error) {
	engine, err := c.Connect(completionTimeout)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(commandContext(cmd), completionTimeout)
	return ctx, engine, cancel, nil
}

// commandContext returns the context that the command runs in, or a background context.
func commandContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// States returns the provision states that a list may be filtered by.
func States() []string {
	var names []string
	for _, state := range node.States() {
		names = append(names, string(state))
	}
	slices.Sort(names)
	return names
}

// CompleteList suggests the next of these words in a list separated by commas.
func CompleteList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		chosen := begun[:strings.LastIndex(begun, ",")+1]
		var found []cobra.Completion
		for _, word := range words {
			if !slices.Contains(strings.Split(chosen, ","), word) && strings.HasPrefix(chosen+word, begun) {
				found = append(found, chosen+word)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// Names suggests the names, or else the identifiers, of the objects of a
// resource, as [Completion.Nodes] does for nodes.
func (c Completion) Names(resource Resource, limit int) cobra.CompletionFunc {
	return c.fromEngine(limit, func(ctx context.Context, engine *ironic.Client, args []string, begun string) (found []cobra.Completion) {
		listing := resource.listing()
		listing.Fields = resource.Short
		for raw, err := range engine.Documents(ctx, listing) {
			if err != nil || len(found) == maxCompletions {
				break
			}
			object, err := parseDocument(raw)
			if err != nil {
				break
			}
			word := object.label()
			if strings.HasPrefix(word, begun) && !strings.ContainsFunc(word, active) && !slices.Contains(args, word) {
				found = append(found, cobra.CompletionWithDesc(word, object.cell(resource.Short[1])))
			}
		}
		return found
	})
}
