package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/ironic"
)

// InventoryShow prints what inspection found on a node, section by section.
type InventoryShow struct {
	// Sections to print. None means all sections except those that are shown on request only.
	Sections []string
	Output   Output
}

// InventorySections returns the names of the sections that every inventory may have. A key of an
// inventory that none of them shows is a section too.
func InventorySections() []string {
	names := make([]string, len(inventorySections))
	for i, s := range inventorySections {
		names[i] = s.name
	}
	return names
}

// Run reads the inventory of the node and prints it to out.
func (s InventoryShow) Run(ctx context.Context, engine *ironic.Client, ident string, out io.Writer) error {
	raw, err := readInventory(ctx, engine, ident)
	if err != nil {
		return err
	}
	found, err := parseFindings(raw)
	if err != nil {
		return err
	}
	chosen, err := found.choose(s.Sections)
	if err != nil {
		return err
	}
	switch s.Output {
	case OutputJSON, OutputYAML:
		return s.structured(out, raw, found, chosen)
	case OutputTable:
		return s.tables(out, found, chosen)
	}
	for _, section := range chosen {
		if err := s.Output.list(out, section.titles(), section.rows(found)); err != nil {
			return err
		}
	}
	return nil
}

// readInventory returns the inventory of the node. If the node has none, the error says how to get
// it.
func readInventory(ctx context.Context, engine *ironic.Client, ident string) (ironic.Inventory, error) {
	found, err := engine.Inventory(ctx, ident)
	if ExitCode(err) == ExitNotFound {
		err = &AdvisedError{Err: err, Advice: "See the nodes with: ingot node list. Inspection makes an inventory: ingot node inspect."}
	}
	return found, err
}

// structured prints the inventory as the engine sent it, or the chosen sections: a single section
// by itself, several sections by name. A section without data is null.
func (s InventoryShow) structured(out io.Writer, raw ironic.Inventory, found findings, chosen []section) error {
	switch len(s.Sections) {
	case 0:
		return s.Output.structured(out, raw.Inventory)
	case 1:
		return s.Output.structured(out, chosen[0].value(found))
	}
	sections := map[string]any{}
	for _, section := range chosen {
		sections[section.name] = section.value(found)
	}
	return s.Output.structured(out, sections)
}

// tables prints the sections for people. Unless the user chose sections, it leaves out empty
// sections and ends with the names of the sections that are shown on request.
func (s InventoryShow) tables(out io.Writer, found findings, chosen []section) error {
	printed := 0
	for _, section := range chosen {
		rows := section.rows(found)
		columns := filled(section.titles(), rows)
		if len(columns) == 0 && len(s.Sections) == 0 {
			continue
		}
		if printed > 0 {
			fmt.Fprintln(out)
		}
		printed++
		if len(columns) == 0 {
			fmt.Fprintf(out, "%s: nothing found\n", printable(section.title))
			continue
		}
		fmt.Fprintln(out, printable(section.title))
		if err := OutputTable.list(out, columns, rows); err != nil {
			return err
		}
	}
	if printed == 0 {
		fmt.Fprintln(out, "The inventory is empty.")
	}
	if len(s.Sections) > 0 {
		return nil
	}
	if more := found.onRequest(); len(more) > 0 {
		_, err := fmt.Fprintf(out, "\nMore with --section: %s\n", printable(strings.Join(more, ", ")))
		return err
	}
	return nil
}

// filled returns the columns that at least one row has a value for.
func filled(columns []string, rows []document) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(column string) bool {
		return !slices.ContainsFunc(rows, func(row document) bool { return row.fields[column] != nil })
	})
}

// findings are an inventory and the plugin data that hooks derived from it. Data that is not an
// object counts as empty.
type findings struct {
	inventory, plugin map[string]any
}

func parseFindings(raw ironic.Inventory) (findings, error) {
	inventory, err := parseDocument(raw.Inventory)
	if err != nil {
		return findings{}, &ironic.Error{Op: "read the inventory", Kind: ironic.ErrProtocol, Message: "it is not a JSON object", Cause: err}
	}
	found := findings{inventory: inventory.fields}
	if plugin, err := parseDocument(raw.PluginData); err == nil {
		found.plugin = plugin.fields
	}
	return found, nil
}

// choose returns the sections of these names, in the order in which tables show them. Without names
// it returns the sections that are shown by default.
func (f findings) choose(names []string) ([]section, error) {
	all := append(slices.Clone(inventorySections), f.others()...)
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s section) bool { return s.onRequest }), nil
	}
	var chosen []section
	for _, name := range names {
		at := slices.IndexFunc(all, func(s section) bool { return s.name == name || s.key == name })
		if at < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.name)
			}
			return nil, &UsageError{fmt.Errorf("the inventory has no section %q, only %s", name, strings.Join(known, ", "))}
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// onRequest returns the names of the non-empty sections that are shown on request only.
func (f findings) onRequest() []string {
	var names []string
	for _, s := range inventorySections {
		if s.onRequest && len(filled(s.titles(), s.rows(f))) > 0 {
			names = append(names, s.name)
		}
	}
	return names
}
