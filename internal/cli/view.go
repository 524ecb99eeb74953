package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/baremetal"
)

// View is a command that reads something that belongs to a thing.
type View struct {
	Command string // words of the command: "bios setting list"
	Short   string
	// Of is the kind of thing that it belongs to.
	Of Resource
	// Arg names a second argument, which Path ends in; empty for none.
	Arg string
	// Path is below the thing: "bios".
	Path string
	// Key is the member of the answer to print; empty for the whole answer.
	Key string
	// Rows makes rows of what is printed. Nil prints it as one thing.
	Rows rows
	// Columns are those of a table of Rows.
	Columns []string
}

// rows takes a JSON value apart into things with the columns as fields.
type rows func(raw json.RawMessage, columns []string) ([]document, error)

// nodeViews are the commands that read parts of a node.
var nodeViews = []View{
	{Command: "validate", Of: Nodes, Path: "validate", Rows: members, Columns: []string{"interface", "result", "reason"}, Short: "Say which interfaces have all that they need"},
	{Command: "boot device show", Of: Nodes, Path: "management/boot_device", Short: "Show the next boot device"},
	{
		Command: "boot device supported", Of: Nodes, Path: "management/boot_device/supported", Key: "supported_boot_devices",
		Rows: words, Columns: []string{"name"}, Short: "List the boot devices that a node can be set to",
	},
	{Command: "trait list", Of: Nodes, Path: "traits", Key: "traits", Rows: words, Columns: []string{"name"}, Short: "List a node's traits"},
	{
		Command: "history list", Of: Nodes, Path: "history", Key: "history", Rows: objects,
		Columns: []string{"uuid", "created_at", "severity", "event"}, Short: "List what happened to a node",
	},
	{Command: "history show", Of: Nodes, Path: "history", Arg: "EVENT", Short: "Show one event of a node's history"},
	{Command: "bios setting list", Of: Nodes, Path: "bios", Key: "bios", Rows: objects, Columns: []string{"name", "value"}, Short: "List a node's BIOS settings"},
	{Command: "bios setting show", Of: Nodes, Path: "bios", Arg: "SETTING", Key: argKey, Short: "Show one BIOS setting of a node"},
	{
		Command: "firmware list", Of: Nodes, Path: "firmware", Key: "firmware", Rows: objects,
		Columns: []string{"component", "initial_version", "current_version", "last_version_flashed"}, Short: "List the firmware of a node's components",
	},
	{Command: "vif list", Of: Nodes, Path: "vifs", Key: "vifs", Rows: objects, Columns: []string{"id"}, Short: "List the virtual interfaces attached to a node"},
	{Command: "vmedia get", Of: Nodes, Path: "vmedia", Rows: objects, Columns: []string{"media_types", "inserted", "image"}, Short: "Show a node's virtual media"},
	{Command: "child list", Of: Nodes, Path: "children", Key: "children", Rows: words, Columns: []string{"uuid"}, Short: "List the nodes that are parts of a node"},
	{Command: "passthru list", Of: Nodes, Path: "vendor_passthru/methods", Rows: members, Columns: []string{"method", "http_methods", "async", "description"}, Short: "List the vendor methods of a node's driver"},
}

// DriverProperties explains what a driver wants to know.
var DriverProperties = View{
	Command: "properties", Of: Drivers, Path: "properties", Rows: members,
	Columns: []string{"property", "description"}, Short: "Show what a driver wants to know in driver_info",
}

// NodeViews returns the commands that read parts of a node.
func NodeViews() []View { return slices.Clone(nodeViews) }

// argKey as View.Key is the member that the second argument names.
const argKey = "<arg>"

// Run reads and prints to out. The arguments are the thing and, for a view
// that has one, its second argument.
func (v View) Run(ctx context.Context, engine *baremetal.Client, args []string, output Output, out io.Writer) error {
	op := fmt.Sprintf("read %s of %s %s", strings.ReplaceAll(v.Path, "/", " "), v.Of.Name, args[0])
	path := append([]string{v.Of.Collection, args[0]}, strings.Split(v.Path, "/")...)
	key, second := v.Key, args[len(args)-1]
	if v.Arg != "" {
		path = append(path, second)
	}
	if key == argKey {
		key = second
	}
	raw, err := engine.Read(ctx, baremetal.Request{Op: op, Path: path})
	if err != nil {
		return err
	}
	if key != "" {
		var answer map[string]json.RawMessage
		if json.Unmarshal(raw, &answer) != nil || answer[key] == nil {
			return &baremetal.Error{Op: op, Kind: baremetal.ErrProtocol, Message: fmt.Sprintf("the answer has no %q", key)}
		}
		raw = answer[key]
	}
	if v.Rows == nil {
		return output.document(out, nil, raw)
	}
	if output == OutputJSON || output == OutputYAML {
		return output.structured(out, raw)
	}
	found, err := v.Rows(raw, v.Columns)
	if err != nil {
		return &baremetal.Error{Op: op, Kind: baremetal.ErrProtocol, Message: "the answer is not what it should be", Cause: err}
	}
	return output.list(out, v.Columns, found)
}

// objects are the rows of a list of objects.
func objects(raw json.RawMessage, _ []string) ([]document, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	found := make([]document, len(list))
	for i, item := range list {
		var err error
		if found[i], err = parseDocument(item); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// words are the rows of a list of strings; there is one column.
func words(raw json.RawMessage, columns []string) ([]document, error) {
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	found := make([]document, len(list))
	for i, word := range list {
		found[i] = document{fields: map[string]any{columns[0]: word, "name": word}}
	}
	return found, nil
}

// members are the rows of an object: the first column is the key, the others
// are fields of its value, or the value itself when it is no object.
func members(raw json.RawMessage, columns []string) ([]document, error) {
	all, err := parseDocument(raw)
	if err != nil {
		return nil, err
	}
	var found []document
	for _, key := range slices.Sorted(maps.Keys(all.fields)) {
		fields := map[string]any{}
		if value, ok := all.fields[key].(map[string]any); ok {
			maps.Copy(fields, value)
		} else {
			fields[columns[1]] = all.fields[key]
		}
		fields[columns[0]] = key
		fields["name"] = key
		found = append(found, document{fields: fields})
	}
	return found, nil
}
