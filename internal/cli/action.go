package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// Action is a command that makes one request about a node.
type Action struct {
	Command string // words of the command: "boot device set"
	Also    string // words that other clients use, if they differ
	Short   string
	Method  string
	Path    string // below the node: "management/boot_device"
	// Args are the arguments after the node. A command without Args takes several nodes.
	Args []Arg
	// Fields and Fixed become the body, or the query of a DELETE. Flags win over Fixed.
	Fields []Field
	Fixed  map[string]any
	// All adds the flag --all, which stands for every value instead of Args.
	All bool
	// Done is printed after the node's name when the request has succeeded.
	Done string
	// Power is the power state that --wait waits for; empty for no --wait.
	Power string
}

// Arg is an argument of an [Action].
type Arg struct {
	Name string // in help texts: "TRAIT"
	// Field is the member of the body that takes the argument. Empty means that the argument ends
	// the path, with one request for each value.
	Field string
	// Many takes all remaining arguments, at least one.
	Many bool
}

// wholeBody as Field.Name makes the field's value the body of the request.
const wholeBody = "<body>"

// ActOnNodes runs an [Action] with the flags that the user gave.
type ActOnNodes struct {
	Action Action
	Values Values
	// Everything is the value of --all.
	Everything bool
	Wait       Wait
	Interval   time.Duration // see [ProvisionNodes]
}

// Run makes the requests. For an action without Args, all args are nodes.
func (a *ActOnNodes) Run(ctx context.Context, engine *ironic.Client, args []string, to Streams) error {
	idents, tails := args, []string{""}
	fields := maps.Clone(a.Action.Fixed)
	if fields == nil {
		fields = map[string]any{}
	}
	if len(a.Action.Args) > 0 {
		if err := a.checkArgs(args); err != nil {
			return err
		}
		idents = args[:1]
		tails = a.place(args[1:], fields)
	}
	maps.Copy(fields, a.Values.Object())
	if err := missing("ingot node "+a.Action.Command, a.Action.Fields, fields); err != nil {
		return err
	}
	request := ironic.Request{Method: a.Action.Method}
	switch {
	case a.Action.Method == http.MethodDelete:
		request.Query = a.Values.Query()
	case fields[wholeBody] != nil:
		request.Body = fields[wholeBody]
	case len(fields) > 0 || tails[0] == "":
		request.Body = fields
	}
	return requestThenWait(ctx, idents, a.Wait, to, func(ident string) error {
		for _, tail := range tails {
			if err := a.send(ctx, engine, request, ident, tail, to); err != nil {
				return err
			}
		}
		return nil
	}, func(ident string) watch { return powerWatch(engine, ident, a.Action.Power, a.Interval) })
}

// send makes one request about a node; tail, if not empty, is the last segment of its path.
func (a *ActOnNodes) send(ctx context.Context, engine *ironic.Client, request ironic.Request, ident, tail string, to Streams) error {
	request.Path = Nodes.path(append([]string{ident}, strings.Split(a.Action.Path, "/")...)...)
	if tail != "" {
		request.Path = append(request.Path, tail)
	}
	what := strings.TrimSpace(a.Action.Command + " " + tail)
	request.Op = fmt.Sprintf("run %q on node %s", what, ident)
	if _, err := engine.Do(ctx, request); err != nil || a.Wait.Asked {
		return err
	}
	done := strings.TrimSpace(a.Action.Done + " " + tail)
	_, err := fmt.Fprintf(to.Out, "Node %s: %s\n", printable(ident), printable(done))
	return err
}

// place puts arguments into fields of the body. It returns the last segments of the path, one for
// each request.
func (a *ActOnNodes) place(args []string, fields map[string]any) []string {
	tails := []string{""}
	if a.Everything {
		return tails
	}
	for i, value := range args[:min(len(args), len(a.Action.Args))] {
		switch arg := a.Action.Args[i]; {
		case arg.Field == "":
			tails = args[i:]
		case arg.Many:
			fields[arg.Field] = args[i:]
		default:
			fields[arg.Field] = value
		}
	}
	return tails
}

// checkArgs returns an error for a wrong number of arguments.
func (a *ActOnNodes) checkArgs(args []string) error {
	want := 1 + len(a.Action.Args)
	many := a.Action.Args[len(a.Action.Args)-1].Many
	switch {
	case a.Everything && len(args) != 1:
		return &UsageError{errors.New("with --all, give one node and nothing else")}
	case a.Everything, len(args) == want, many && len(args) > want:
		return nil
	}
	return &UsageError{fmt.Errorf("ingot node %s takes a node and %s", a.Action.Command, strings.Join(a.Action.argNames(), " "))}
}

func (a Action) argNames() []string {
	var names []string
	for _, arg := range a.Args {
		name := arg.Name
		if arg.Many {
			name += "..."
		}
		names = append(names, name)
	}
	return names
}

// Usage returns the arguments as help texts show them.
func (a Action) Usage() string {
	if len(a.Args) == 0 {
		return "NODE..."
	}
	return "NODE " + strings.Join(a.argNames(), " ")
}
