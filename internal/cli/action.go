package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// Action is a command that makes one request about a node.
type Action struct {
	Command string // words of the command: "boot device set"
	Short   string
	Method  string
	Path    string // below the node: "management/boot_device"
	// Args are what the command takes beside the node. Without any it takes
	// several nodes.
	Args []Arg
	// Fields and Fixed make the body, or the query of a DELETE; a flag has the
	// last word.
	Fields []Field
	Fixed  map[string]any
	// All is a flag that stands for all that the path has, instead of Args.
	All bool
	// Done says what has happened to the node.
	Done string
	// Power is the power state that --wait waits for; empty for no --wait.
	Power string
}

// Arg is an argument of an [Action].
type Arg struct {
	Name string // in help texts: "TRAIT"
	// Field is the member of the body that it becomes; empty means the end of
	// the path, and one request for each value.
	Field string
	// Many takes all arguments that are left, at least one.
	Many bool
}

var powerTimeout = Field{Flag: "power-timeout", Name: "timeout", Kind: Number, Help: "`seconds` that the change may take"}

func soft(target string) Field {
	return Field{Flag: "soft", Name: "target", Kind: Constant, Value: target, Help: "ask the operating system to do it"}
}

var nodeActions = []Action{
	{Command: "power on", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "power on accepted", Short: "Switch nodes on", Fixed: map[string]any{"target": "power on"}, Fields: []Field{powerTimeout}},
	{Command: "power off", Method: http.MethodPut, Path: "states/power", Power: "power off", Done: "power off accepted", Short: "Switch nodes off", Fixed: map[string]any{"target": "power off"}, Fields: []Field{soft("soft power off"), powerTimeout}},
	{Command: "power reboot", Method: http.MethodPut, Path: "states/power", Power: "power on", Done: "reboot accepted", Short: "Switch nodes off and on", Fixed: map[string]any{"target": "rebooting"}, Fields: []Field{soft("soft rebooting"), powerTimeout}},
	{Command: "maintenance set", Method: http.MethodPut, Path: "maintenance", Done: "in maintenance", Short: "Put nodes into maintenance", Fields: []Field{{Flag: "reason", Name: "reason", Help: "why, for people"}}},
	{Command: "maintenance unset", Method: http.MethodDelete, Path: "maintenance", Done: "out of maintenance", Short: "Take nodes out of maintenance"},
	{
		Command: "boot device set", Method: http.MethodPut, Path: "management/boot_device", Args: []Arg{{Name: "DEVICE", Field: "boot_device"}},
		Done: "boot device set", Short: "Choose what a node boots from next",
		Fields: []Field{{Flag: "persistent", Name: "persistent", Kind: Bool, Help: "for every boot from now on, not just the next"}},
	},
	{Command: "boot mode set", Method: http.MethodPut, Path: "states/boot_mode", Args: []Arg{{Name: "MODE", Field: "target"}}, Done: "boot mode accepted", Short: "Choose the boot mode of a node: uefi or bios"},
	{Command: "secure boot on", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": true}, Done: "secure boot on accepted", Short: "Switch secure boot on"},
	{Command: "secure boot off", Method: http.MethodPut, Path: "states/secure_boot", Fixed: map[string]any{"target": false}, Done: "secure boot off accepted", Short: "Switch secure boot off"},
	{Command: "inject nmi", Method: http.MethodPut, Path: "management/inject_nmi", Done: "NMI injected", Short: "Interrupt nodes so that they dump their memory"},
	{Command: "trait add", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, Done: "trait added", Short: "Add traits to a node"},
	{Command: "trait remove", Method: http.MethodDelete, Path: "traits", Args: []Arg{{Name: "TRAIT", Many: true}}, All: true, Done: "trait removed", Short: "Remove traits from a node"},
	{Command: "trait set", Method: http.MethodPut, Path: "traits", Args: []Arg{{Name: "TRAIT", Field: "traits", Many: true}}, Done: "traits set", Short: "Replace the traits of a node"},
	{
		Command: "vif attach", Method: http.MethodPost, Path: "vifs", Args: []Arg{{Name: "VIF", Field: "id"}},
		Done: "virtual interface attached", Short: "Attach a virtual interface to a node",
		Fields: []Field{
			{Flag: "port-uuid", Name: "port_uuid", Help: "`UUID` of the port to attach it to"},
			{Flag: "port-group-uuid", Name: "portgroup_uuid", Help: "`UUID` of the port group to attach it to"},
		},
	},
	{Command: "vif detach", Method: http.MethodDelete, Path: "vifs", Args: []Arg{{Name: "VIF"}}, Done: "virtual interface detached", Short: "Detach a virtual interface from a node"},
	{
		Command: "vmedia attach", Method: http.MethodPost, Path: "vmedia", Done: "virtual media accepted",
		Args:   []Arg{{Name: "TYPE", Field: "device_type"}, {Name: "URL", Field: "image_url"}},
		Short:  "Insert an image into a virtual drive: cdrom, disk or floppy",
		Fields: []Field{{Flag: "image-download-source", Name: "image_download_source", Help: "how the BMC gets the image: http, local or swift"}},
	},
	{
		Command: "vmedia detach", Method: http.MethodDelete, Path: "vmedia", Done: "virtual media detached",
		Short:  "Eject images from virtual drives",
		Fields: []Field{{Flag: "device-type", Name: "device_types", Kind: Repeated, Help: "only this `TYPE` of drive; may be repeated"}},
	},
}

// NodeActions returns the commands that make a request about nodes.
func NodeActions() []Action { return slices.Clone(nodeActions) }

// Act is an [Action] with what the user gave for it.
type Act struct {
	Action Action
	Values Values
	// Everything is the flag of an action that has All.
	Everything bool
	Wait       Wait
	Interval   time.Duration // see [ProvisionNodes]
}

// Run makes the requests. Without Args of the action, args are nodes.
func (a *Act) Run(ctx context.Context, engine *baremetal.Client, args []string, to Streams) error {
	idents, tails := args, []string{""}
	fields := map[string]any{}
	for name, value := range a.Action.Fixed {
		fields[name] = value
	}
	if len(a.Action.Args) > 0 {
		if err := a.checkArgs(args); err != nil {
			return err
		}
		idents = args[:1]
		tails = a.place(args[1:], fields)
	}
	for name, value := range a.Values.Object() {
		fields[name] = value
	}
	request := baremetal.Request{Method: a.Action.Method}
	switch {
	case a.Action.Method == http.MethodDelete:
		request.Query = a.Values.Query()
	case len(fields) > 0 || tails[0] == "":
		request.Body = fields
	}
	return askThenWait(ctx, idents, a.Wait, to, func(ident string) error {
		for _, tail := range tails {
			if err := a.send(ctx, engine, request, ident, tail, to); err != nil {
				return err
			}
		}
		return nil
	}, func(ident string) watch { return powerWatch(engine, ident, a.Action.Power, a.Interval) })
}

// send makes one request about a node, or about what the tail names of it.
func (a *Act) send(ctx context.Context, engine *baremetal.Client, request baremetal.Request, ident, tail string, to Streams) error {
	request.Path = append([]string{Nodes.Collection, ident}, strings.Split(a.Action.Path, "/")...)
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

// place puts arguments into the body's fields, and returns what the path ends
// in, one for each request.
func (a *Act) place(args []string, fields map[string]any) []string {
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

// checkArgs tells what is wrong with the number of arguments.
func (a *Act) checkArgs(args []string) error {
	want := 1 + len(a.Action.Args)
	many := a.Action.Args[len(a.Action.Args)-1].Many
	switch {
	case a.Everything && len(args) != 1:
		return &UsageError{errors.New("--all takes a node and nothing else")}
	case a.Everything, len(args) == want, many && len(args) > want:
		return nil
	}
	return &UsageError{fmt.Errorf("%s takes a node and %s", a.Action.Command, strings.Join(a.Action.argNames(), " "))}
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

// Usage is the arguments as help texts show them.
func (a Action) Usage() string {
	if len(a.Args) == 0 {
		return "NODE..."
	}
	return "NODE " + strings.Join(a.argNames(), " ")
}
