package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// View is a command that reads a part of an object, such as the traits of a node.
type View struct {
	Command string // words of the command: "bios setting list"
	Also    string // words that other clients use, if they differ
	Short   string
	// Arg names a second argument, which becomes the last segment of the path; empty for none.
	Arg string
	// Path is below the object: "bios". Empty means the object itself.
	Path string
	// Query are arguments of the URL.
	Query url.Values
	// Key is the member of the answer to print; empty for the whole answer.
	Key string
	// Paged means that the answer comes in pages; all of them are printed.
	Paged bool
	// Rows splits the answer into rows. Nil prints it as one object.
	Rows rows
	// Columns are the columns of a table of Rows, or the fields of one object. For one object, none
	// means all fields.
	Columns []string
	// Long are the columns with --long, which asks the engine for details. Nil means that there is
	// no --long.
	Long []string
	// Chosen adds the flag --fields, which chooses the columns.
	Chosen bool
	// Instead is a flag that selects another view.
	Instead *Instead
}

// Instead is a flag of a [View] and the view that it asks for.
type Instead struct {
	Flag, Help string
	View       View
}

// nodeViews are the commands that read parts of a node.
var nodeViews = []View{
	{Command: "validate", Path: "validate", Rows: memberRows, Columns: []string{"interface", "result", "reason"}, Short: "Check whether the driver settings of a node are complete"},
	{
		Command: "boot device show", Path: "management/boot_device", Short: "Show the boot device of a node",
		Instead: &Instead{Flag: "supported", Help: "list the boot devices that the node supports", View: bootDevices},
	},
	bootDevices,
	{Command: "trait list", Path: "traits", Key: "traits", Rows: stringRows, Columns: []string{"name"}, Short: "List the traits of a node"},
	{
		Command: "history list", Path: "history", Key: "history", Rows: objectRows, Paged: true, Short: "List the history of a node",
		Columns: []string{"uuid", "created_at", "severity", "event"},
		Long:    []string{"uuid", "created_at", "severity", "event_type", "event", "conductor", "user"},
	},
	{Command: "history show", Also: "history get", Path: "history", Arg: "EVENT", Short: "Show an event in the history of a node"},
	{
		Command: "bios setting list", Path: "bios", Key: "bios", Rows: objectRows, Short: "List the BIOS settings of a node",
		Columns: []string{"name", "value"},
		Long: []string{
			"name", "value", "attribute_type", "allowable_values", "lower_bound", "upper_bound", "min_length", "max_length",
			"read_only", "reset_required", "unique",
		},
		Chosen: true,
	},
	{Command: "bios setting show", Path: "bios", Arg: "SETTING", Key: argKey, Short: "Show a BIOS setting of a node"},
	{
		Command: "firmware list", Path: "firmware", Key: "firmware", Rows: objectRows,
		Columns: []string{"component", "initial_version", "current_version", "last_version_flashed"}, Short: "List the firmware versions of a node's components",
	},
	{
		Command: "raid show", Query: url.Values{"fields": {"raid_config,target_raid_config"}},
		Columns: []string{"raid_config", "target_raid_config"}, Short: "Show the current and the target RAID configuration of a node",
	},
	{Command: "console show", Path: "states/console", Short: "Show the console of a node"},
	{Command: "vif list", Path: "vifs", Key: "vifs", Rows: objectRows, Columns: []string{"id"}, Short: "List the virtual interfaces of a node"},
	{Command: "vmedia get", Path: "vmedia", Rows: objectRows, Columns: []string{"media_types", "inserted", "image"}, Short: "Show the virtual media of a node"},
	{Command: "child list", Also: "children list", Path: "children", Key: "children", Rows: stringRows, Columns: []string{"uuid"}, Short: "List the child nodes of a node"},
	methods,
}

// driverViews are the commands that read parts of a driver.
var driverViews = []View{
	{
		Command: "property list", Also: "properties", Path: "properties", Rows: memberRows,
		Columns: []string{"property", "description"}, Short: "List the driver_info keys of a driver",
	},
	{
		Command: "raid property list", Path: "raid/logical_disk_properties", Rows: memberRows,
		Columns: []string{"property", "description"}, Short: "List the properties of a logical disk",
	},
	methods,
}

// Views that nodes and drivers share.
var (
	bootDevices = View{
		Command: "boot device supported", Path: "management/boot_device/supported", Key: "supported_boot_devices",
		Rows: stringRows, Columns: []string{"name"}, Short: "List the boot devices that a node supports",
	}
	methods = View{
		Command: "passthru list", Path: "vendor_passthru/methods", Rows: memberRows,
		Columns: []string{"method", "http_methods", "async", "description"}, Short: "List vendor methods",
	}
)

// Views returns the commands that read parts of an object of this resource.
func (r Resource) Views() []View {
	return map[string][]View{Nodes.Name: nodeViews, Drivers.Name: driverViews}[r.Name]
}

// argKey as View.Key stands for the member that the second argument names.
const argKey = "<arg>"

// Read is a [View] of a resource with the arguments and flags that the user gave.
type Read struct {
	View   View
	Of     Resource
	Long   bool
	Fields []string
	Output Output
}

// Run reads the part and prints it to out. The arguments are the object and, if the view has one,
// the second argument.
func (r *Read) Run(ctx context.Context, engine *ironic.Client, args []string, out io.Writer) error {
	columns := r.View.Columns
	switch {
	case r.Long && len(r.Fields) > 0:
		return &UsageError{errLongFields}
	case r.Long:
		columns = r.View.Long
	case len(r.Fields) > 0:
		columns = r.Fields
	}
	request := r.request(args)
	if r.View.Paged {
		found, err := collect(engine.Documents(ctx, ironic.Listing{Op: request.Op, Collection: request.Path, Query: request.Query}))
		if err != nil {
			return r.advise(args, err)
		}
		return r.Output.list(out, columns, found)
	}
	answer, err := engine.Read(ctx, request)
	if err != nil {
		return r.advise(args, err)
	}
	key := r.View.Key
	if key == argKey {
		key = args[len(args)-1]
	}
	if answer, err = member(answer, key, request.Op); err != nil {
		return err
	}
	if r.View.Rows == nil {
		return r.Output.document(out, columns, answer)
	}
	if r.Output == OutputJSON || r.Output == OutputYAML {
		return r.Output.structured(out, answer)
	}
	found, err := r.View.Rows(answer, columns)
	if err != nil {
		return &ironic.Error{Op: request.Op, Kind: ironic.ErrProtocol, Message: "the answer is not what it should be", Cause: err}
	}
	return r.Output.list(out, columns, found)
}

// request returns the request to the engine.
func (r *Read) request(args []string) ironic.Request {
	query := url.Values{}
	maps.Copy(query, r.View.Query)
	if r.Long {
		query.Set("detail", "true")
	}
	set(query, "fields", strings.Join(r.Fields, ","))
	path, what := r.Of.path(args[0]), "show"
	if r.View.Path != "" {
		below := strings.Split(r.View.Path, "/")
		path = append(path, below...)
		what += " " + strings.Join(below, " ")
	}
	if r.View.Arg != "" {
		path = append(path, args[len(args)-1])
	}
	return ironic.Request{Op: fmt.Sprintf("%s of %s %s", what, r.Of.Name, args[0]), Path: path, Query: query}
}

// advise adds to an error for an unknown object how to list the existing objects.
func (r *Read) advise(args []string, err error) error {
	if r.View.Arg == "" || !errors.Is(err, ironic.ErrNotFound) {
		return r.Of.advise(err)
	}
	list := fmt.Sprintf("ingot %s %slist %s", r.Of.Name, strings.TrimSuffix(r.View.Command, "show"), args[0])
	return &AdvisedError{Err: err, Advice: "See what there is with: " + list + "."}
}

// member returns the member of an answer under the key. For an empty key it returns the whole
// answer.
func member(raw json.RawMessage, key, op string) (json.RawMessage, error) {
	if key == "" {
		return raw, nil
	}
	var answer map[string]json.RawMessage
	if json.Unmarshal(raw, &answer) != nil || answer[key] == nil {
		return nil, &ironic.Error{Op: op, Kind: ironic.ErrProtocol, Message: fmt.Sprintf("the answer has no %q", key)}
	}
	return answer[key], nil
}
