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

// InventoryShow prints what inspection found on a node, section by section.
type InventoryShow struct {
	// Sections to print; none means all of the inventory.
	Sections []string
	Output   Output
}

const (
	// general is the section of what stands in the inventory by itself.
	general = "general"
	// pluginData is the section of what the inspection hooks found.
	pluginData = "plugin_data"
)

// sectionOrder are the sections in the order that people read them; others
// follow by name.
var sectionOrder = []string{general, "system_vendor", "cpu", "memory", "disks", "interfaces", "boot"}

// sectionColumns are the columns of sections that are lists. A list of other
// things has all their fields as columns.
var sectionColumns = map[string][]string{
	"disks":      {"name", "model", "size", "rotational", "serial", "wwn", "hctl"},
	"interfaces": {"name", "mac_address", "ipv4_address", "ipv6_address", "has_carrier", "speed_mbps", "vendor", "product"},
}

// InventorySections are the sections that most machines have.
func InventorySections() []string { return append(slices.Clone(sectionOrder), pluginData) }

// Run reads the inventory of the node and prints it to out.
func (s InventoryShow) Run(ctx context.Context, engine *baremetal.Client, ident string, out io.Writer) error {
	found, err := engine.Inventory(ctx, ident)
	if err != nil {
		return err
	}
	sections, err := sectionsOf(found)
	if err != nil {
		return err
	}
	if s.Output == OutputJSON || s.Output == OutputYAML {
		return s.structured(out, found, sections)
	}
	names := s.Sections
	if len(names) == 0 {
		names = readingOrder(sections)
	}
	for i, name := range names {
		raw, ok := sections[name]
		if !ok {
			return s.missing(name, sections)
		}
		if s.Output == OutputTable {
			if i > 0 {
				fmt.Fprintln(out)
			}
			fmt.Fprintln(out, columnTitle(name))
		}
		if err := s.section(out, name, raw); err != nil {
			return err
		}
	}
	return nil
}

// structured prints the inventory as the engine sent it, or the chosen
// sections of it: one by itself, several by name.
func (s InventoryShow) structured(out io.Writer, found baremetal.Inventory, sections map[string]json.RawMessage) error {
	if len(s.Sections) == 0 {
		return s.Output.structured(out, found.Inventory)
	}
	chosen := map[string]json.RawMessage{}
	for _, name := range s.Sections {
		raw, ok := sections[name]
		if !ok {
			return s.missing(name, sections)
		}
		chosen[name] = raw
	}
	if len(s.Sections) == 1 {
		return s.Output.structured(out, chosen[s.Sections[0]])
	}
	return s.Output.structured(out, chosen)
}

func (s InventoryShow) missing(name string, sections map[string]json.RawMessage) error {
	return &UsageError{fmt.Errorf("the inventory has no section %q, only %s", name, strings.Join(readingOrder(sections), ", "))}
}

// section prints one section as what it is: a list as a table, an object with
// a line for each field.
func (s InventoryShow) section(out io.Writer, name string, raw json.RawMessage) error {
	list, err := objects(raw, nil)
	if err != nil {
		if d, err := parseDocument(raw); err == nil && d.fields != nil {
			return s.Output.one(out, slices.Sorted(maps.Keys(d.fields)), d)
		}
		return s.Output.one(out, []string{name}, document{raw: raw, fields: map[string]any{name: string(raw)}})
	}
	columns := sectionColumns[name]
	if columns == nil {
		columns = allFields(list)
	}
	return s.Output.list(out, columns, list)
}

// allFields are the names of the fields that any of the things has.
func allFields(list []document) []string {
	names := map[string]bool{}
	for _, d := range list {
		for name := range d.fields {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// sectionsOf takes an inventory apart. What is neither a list nor an object
// is collected in a section of its own.
func sectionsOf(found baremetal.Inventory) (map[string]json.RawMessage, error) {
	sections, rest := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(found.Inventory, &sections); err != nil {
		return nil, &baremetal.Error{Op: "read the inventory", Kind: baremetal.ErrProtocol, Message: "it is not a JSON object", Cause: err}
	}
	for name, raw := range sections {
		if !looksLikeJSON(string(raw)) {
			rest[name] = raw
			delete(sections, name)
		}
	}
	if len(rest) > 0 {
		raw, err := json.Marshal(rest)
		if err != nil {
			return nil, fmt.Errorf("collect the rest of the inventory: %w", err)
		}
		sections[general] = raw
	}
	if looksLikeJSON(string(found.PluginData)) {
		sections[pluginData] = found.PluginData
	}
	return sections, nil
}

// readingOrder are the names of the inventory's sections.
func readingOrder(sections map[string]json.RawMessage) []string {
	var names []string
	for _, name := range sectionOrder {
		if _, ok := sections[name]; ok {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if name != pluginData && !slices.Contains(sectionOrder, name) {
			names = append(names, name)
		}
	}
	return names
}
