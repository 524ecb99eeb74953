package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"sigs.k8s.io/yaml"
)

// Output is how a command prints what it found.
type Output string

// The forms of output.
const (
	OutputTable Output = "table" // for people
	OutputJSON  Output = "json"  // as the engine sent it, indented
	OutputYAML  Output = "yaml"  // the same as YAML
	OutputValue Output = "value" // one line per object, values separated by spaces
	OutputName  Output = "name"  // one name, or else UUID, per line
)

// Outputs returns all forms, the default first.
func Outputs() []string {
	return []string{string(OutputTable), string(OutputJSON), string(OutputYAML), string(OutputValue), string(OutputName)}
}

// String returns the form's name. Output is a flag value.
func (o *Output) String() string { return string(*o) }

// Type names the kind of flag in help texts.
func (o *Output) Type() string { return "form" }

// Set chooses the form; it accepts the names of [Outputs].
func (o *Output) Set(name string) error {
	if !slices.Contains(Outputs(), name) {
		return fmt.Errorf("must be one of %s", strings.Join(Outputs(), ", "))
	}
	*o = Output(name)
	return nil
}

// list prints objects with the given fields as columns.
func (o Output) list(w io.Writer, fields []string, nodes []document) error {
	switch o {
	case OutputJSON, OutputYAML:
		all := make([]json.RawMessage, len(nodes))
		for i, n := range nodes {
			all[i] = n.raw
		}
		return o.structured(w, all)
	case OutputName:
		return printNames(w, nodes)
	}
	header, rows := make(table.Row, len(fields)), make([]table.Row, len(nodes))
	for i, field := range fields {
		header[i] = columnTitle(field)
	}
	for i, n := range nodes {
		rows[i] = make(table.Row, len(fields))
		for j, field := range fields {
			rows[i][j] = n.cell(field)
		}
	}
	if o == OutputValue {
		return printValues(w, rows)
	}
	return printTable(w, header, rows, maxCellWidth)
}

// document prints one object as [Output.one] does.
func (o Output) document(w io.Writer, fields []string, raw json.RawMessage) error {
	d, err := parseDocument(raw)
	if err != nil {
		return err
	}
	return o.one(w, fields, d)
}

// one prints one object. Without fields it prints all fields that the object has.
func (o Output) one(w io.Writer, fields []string, n document) error {
	switch o {
	case OutputJSON, OutputYAML:
		return o.structured(w, n.raw)
	case OutputName:
		return printNames(w, []document{n})
	}
	if len(fields) == 0 {
		fields = slices.Sorted(maps.Keys(n.fields))
		fields = slices.DeleteFunc(fields, func(f string) bool { return hiddenInTables[f] })
	}
	rows := make([]table.Row, len(fields))
	for i, field := range fields {
		rows[i] = table.Row{printable(field), n.cell(field)}
	}
	if o == OutputValue {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
		return printValues(w, rows)
	}
	return printTable(w, table.Row{"Field", "Value"}, rows, maxValueWidth)
}

var mergeKey = regexp.MustCompile(`<<['"]?:`)

// structured prints value as JSON or YAML. It escapes everything that a terminal would act on.
func (o Output) structured(w io.Writer, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	content := safeJSON(b.Bytes())
	if o == OutputYAML {
		content = safeYAML(b.Bytes())
		converted, err := yaml.JSONToYAML(content)
		if err != nil {
			return fmt.Errorf("print YAML: %w", err)
		}
		// YAML writes some characters unescaped that a terminal acts on. It also writes the key
		// "<<" plainly, which readers take for a merge. In these cases the escaped JSON is printed,
		// which is YAML too.
		if !mergeKey.Match(converted) && !bytes.ContainsFunc(converted, func(r rune) bool { return r != '\n' && active(r) }) {
			content = converted
		}
	}
	_, err := w.Write(content)
	return err
}

func printNames(w io.Writer, nodes []document) error {
	for _, n := range nodes {
		if _, err := fmt.Fprintln(w, printable(n.label())); err != nil {
			return err
		}
	}
	return nil
}

func printValues(w io.Writer, rows []table.Row) error {
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = fmt.Sprint(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, " ")); err != nil {
			return err
		}
	}
	return nil
}

// The largest widths of a table's columns, in characters; longer text is wrapped. A UUID fits into
// each. The last column is wider, because it often has descriptions or events.
const (
	maxCellWidth  = 40
	maxLastWidth  = 80
	maxValueWidth = 100
)

func printTable(w io.Writer, header table.Row, rows []table.Row, width int) error {
	t := table.NewWriter()
	columns := make([]table.ColumnConfig, len(header))
	for i := range columns {
		if i == len(columns)-1 {
			width = max(width, maxLastWidth)
		}
		columns[i] = table.ColumnConfig{Number: i + 1, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
	}
	t.SetColumnConfigs(columns)
	style := table.StyleDefault
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	t.AppendRows(rows)
	_, err := fmt.Fprintln(w, t.Render())
	return err
}
