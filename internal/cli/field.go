package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Kind is how the value of a flag becomes a value of the API.
type Kind int

// Kinds of fields.
const (
	Text        Kind = iota // a string
	Password                // a string, or - for the first line of standard input
	Number                  // a whole number
	Bool                    // true or false, true without a value
	Repeated                // strings; the flag may be given again
	Map                     // KEY=VALUE members of an object; the flag may be repeated
	Members                 // KEY=VALUE fields of the request itself; the flag may be repeated
	NodeID                  // the UUID of a node; see [Values.resolve]
	JSON                    // JSON or YAML: itself, a file, or - for standard input
	ConfigDrive             // see [readConfigDrive]
	Constant                // sets Field.Value when the flag is given
	Default                 // lets the engine choose when the flag is given: a patch removes the field
)

// Use is the set of commands that have a flag for a field.
type Use int

// The commands that change an object's fields.
const (
	InCreate Use = 1 << iota
	InSet
	InUnset
	InAll = InCreate | InSet | InUnset
)

// Field is one field of the API that a flag stands for.
type Field struct {
	Flag string // without dashes: "driver-info"
	Name string // on the wire: "driver_info"
	Kind Kind
	// Off is the name of a second flag that sets a [Bool] to false.
	Off string
	// Value is what a [Constant] stands for.
	Value any
	// Put is the path below the object to send the value to with PUT. It is for a field that a
	// patch of the object cannot change; Name then only identifies the field.
	Put string
	// In are the commands that have the flag. Filters have none.
	In Use
	// Required makes create refuse to run without the flag.
	Required bool
	// Choices are the possible values, for completion; nil for any.
	Choices []string
	Help    string
}

// In returns the fields whose flags the command has.
func In(fields []Field, use Use) []Field {
	var some []Field
	for _, f := range fields {
		if f.In&use != 0 {
			some = append(some, f)
		}
	}
	return some
}

// change is one field, or one member of an object field, with the value that a flag gave it.
type change struct {
	field string
	key   string // the member, empty for the field itself
	value any
	put   string // see [Field]
	op    string // operation of the patch, if it is not the command's
}

// Values collects the values that flags give to fields. The zero value is empty.
type Values struct {
	// Stdin is read where a flag says "-".
	Stdin   io.Reader
	changes []change
}

// Empty reports whether no flag was given.
func (v *Values) Empty() bool { return len(v.changes) == 0 }

// AddFlags binds a flag for each field.
func (v *Values) AddFlags(flags *pflag.FlagSet, fields []Field) {
	for _, f := range fields {
		flag := flags.VarPF(&fieldFlag{values: v, field: f}, f.Flag, "", f.Help)
		if f.Kind == Bool || f.Kind == Constant || f.Kind == Default {
			flag.NoOptDefVal = "true"
		}
		if f.Off != "" {
			off := Field{Name: f.Name, Kind: Constant, Value: false}
			flags.VarPF(&fieldFlag{values: v, field: off}, f.Off, "", "the opposite of --"+f.Flag).NoOptDefVal = "true"
		}
	}
}

// AddUnsetFlags binds a flag for each field that removes the field. For an object, the flag takes
// the member to remove.
func (v *Values) AddUnsetFlags(flags *pflag.FlagSet, fields []Field) {
	for _, f := range fields {
		if f.Kind == Map {
			flags.VarPF(&fieldFlag{values: v, field: Field{Name: f.Name, Kind: unsetKey}}, f.Flag, "", "remove `KEY` from "+f.Name+"; may be repeated")
			continue
		}
		nothing := Field{Name: f.Name, Kind: Constant, Put: f.Put}
		if f.Put != "" {
			nothing.Value = map[string]any{}
		}
		flags.VarPF(&fieldFlag{values: v, field: nothing}, f.Flag, "", "unset "+f.Name).NoOptDefVal = "true"
	}
}

// unsetKey is the kind of a flag that names a member of an object.
const unsetKey Kind = -1

// Add records one value as if a flag had given it.
func (v *Values) Add(name string, value any) {
	v.changes = append(v.changes, change{field: name, value: value})
}

// Object returns the collected fields as one object, for a request's body.
func (v *Values) Object() map[string]any {
	object := map[string]any{}
	for _, c := range v.changes {
		list, isList := c.value.([]string)
		switch {
		case c.key != "":
			members, ok := object[c.field].(map[string]any)
			if !ok {
				members = map[string]any{}
				object[c.field] = members
			}
			members[c.key] = c.value
		case isList:
			before, _ := object[c.field].([]string)
			object[c.field] = append(before, list...)
		default:
			object[c.field] = c.value
		}
	}
	return object
}

// Query returns the collected fields as arguments of a URL.
func (v *Values) Query() url.Values {
	query := url.Values{}
	for name, value := range v.Object() {
		if list, ok := value.([]string); ok {
			value = strings.Join(list, ",")
		}
		query.Set(name, fmt.Sprint(value))
	}
	return query
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON writes the value even if it is false, zero or empty. It leaves the value out of a
// removal.
func (o Operation) MarshalJSON() ([]byte, error) {
	members := map[string]any{"op": o.Op, "path": o.Path}
	if o.Op != opRemove {
		members["value"] = o.Value
	}
	return json.Marshal(members)
}

const (
	opAdd    = "add"
	opRemove = "remove"
)

// patch returns the collected fields as a JSON patch of the given operation. It leaves out fields
// that need a request of their own (see [Field.Put]).
func (v *Values) patch(op string) []Operation {
	var patch []Operation
	for _, c := range v.changes {
		if c.put != "" {
			continue
		}
		path := "/" + c.field
		if c.key != "" {
			path += "/" + pointerEscapes.Replace(c.key)
		}
		patch = append(patch, Operation{Op: cmp.Or(c.op, op), Path: path, Value: c.value})
	}
	return patch
}

// pointerEscapes writes a key into a JSON pointer (RFC 6901, section 3).
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// fieldFlag is the value of one flag.
type fieldFlag struct {
	values *Values
	field  Field
	text   string
}

// String returns the last value given; help texts show no default.
func (f *fieldFlag) String() string { return f.text }

// Type names the kind of value in help texts.
func (f *fieldFlag) Type() string {
	switch f.field.Kind {
	case Bool, Constant, Default:
		return "bool" // pflag shows no value for it
	case Number:
		return "number"
	default:
		return "text"
	}
}

// Set records the value that text means.
func (f *fieldFlag) Set(text string) error {
	f.text = text
	c := change{field: f.field.Name, put: f.field.Put}
	var err error
	switch f.field.Kind {
	case Constant, Default:
		given, err := strconv.ParseBool(text)
		if err != nil || !given {
			return fmt.Errorf("it takes no value")
		}
		c.value = f.field.Value
		if f.field.Kind == Default {
			c.op = opRemove
		}
	case Number:
		if c.value, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("it must be a whole number")
		}
	case Bool:
		if c.value, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("it must be true or false")
		}
	case Repeated:
		c.value = []string{text}
	case Map, Members:
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return fmt.Errorf("it must be KEY=VALUE")
		}
		c.key, c.value = key, memberValue(key, value)
		if f.field.Kind == Members {
			c.field, c.key = key, ""
		}
	case NodeID:
		c.value = nodeRef(text)
	case unsetKey:
		if text == "" {
			return fmt.Errorf("it must name a key")
		}
		c.key = text
	case JSON:
		if c.value, err = readJSON(text, f.values.Stdin); err != nil {
			return err
		}
	case ConfigDrive:
		if c.value, err = readConfigDrive(text, f.values.Stdin); err != nil {
			return err
		}
	case Password:
		if c.value, err = readPassword(text, f.values.Stdin); err != nil {
			return err
		}
	case Text:
		c.value = text
	}
	f.values.changes = append(f.values.changes, c)
	return nil
}

// memberValue returns the value of an object's member: JSON where the text is JSON, as other
// clients of this API read it, else the text. A password is always text, even if it has digits
// only.
func memberValue(key, text string) any {
	if strings.HasSuffix(key, "password") {
		return text
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	if !json.Valid([]byte(text)) || decoder.Decode(&value) != nil {
		return text
	}
	return value
}
