package cli

import (
	"cmp"
	"maps"
	"slices"
)

// section is a part of the findings and how it is shown to people.
type section struct {
	name  string // for --section
	title string
	// key is the member to show: of the inventory, or, with hook, of the plugin data. A section of
	// several members has keys instead.
	key  string
	keys []string
	hook bool
	// onRequest sections are only shown when the user names them.
	onRequest bool
	// columns of the table, for a section that is a list. A section without columns has one row for
	// each of its fields.
	columns []column
	// list turns the value into rows; nil means [listItems].
	list func(value any) []map[string]any
	// fields say how to write the values of single fields.
	fields map[string]format
}

// column is a column of a section's table.
type column struct {
	title string
	from  []string // fields of the row; the first non-empty one counts
	as    format   // nil writes the value as it is
}

// inventorySections are the sections in the order in which tables show them.
var inventorySections = []section{
	{name: "general", title: "General", keys: []string{"hostname"}},
	{name: "system", title: "System", key: "system_vendor"},
	{name: "cpu", title: "CPU", key: "cpu", fields: map[string]format{"frequency": unit("MHz"), "flags": count("flags")}},
	{name: "memory", title: "Memory", key: "memory", fields: map[string]format{"total": bytesOf(1), "physical_mb": bytesOf(1 << 20)}},
	{
		name: "disks", title: "Disks", key: "disks",
		columns: []column{
			{"Name", []string{"name"}, nil},
			{"Size", []string{"size"}, bytesOf(1)},
			{"Kind", []string{"rotational"}, choice("HDD", "SSD")},
			{"Vendor", []string{"vendor"}, nil},
			{"Model", []string{"model"}, nil},
			{"Serial", []string{"serial"}, nil},
			{"WWN", []string{"wwn_with_extension", "wwn"}, nil},
			{"HCTL", []string{"hctl"}, nil},
			{"Path", []string{"by_path"}, without("/dev/disk/by-path/")},
		},
	},
	{
		name: "interfaces", title: "Interfaces", key: "interfaces",
		columns: []column{
			{"Name", []string{"name"}, nil},
			{"MAC", []string{"mac_address"}, nil},
			{"Link", []string{"has_carrier"}, choice("up", "down")},
			{"Speed", []string{"speed_mbps"}, unit("Mbit/s")},
			{"IPv4", []string{"ipv4_address"}, nil},
			{"IPv6", []string{"ipv6_address"}, nil},
			{"Vendor", []string{"vendor"}, nil},
			{"Product", []string{"product"}, nil},
			{"Driver", []string{"driver"}, nil},
			{"PCI", []string{"pci_address"}, nil},
		},
	},
	{name: "boot", title: "Boot", key: "boot"},
	{
		name: "bmc", title: "BMC", keys: []string{"bmc_address", "bmc_v6address", "bmc_mac"},
		fields: map[string]format{"bmc_address": unless("0.0.0.0"), "bmc_v6address": unless("::/0")},
	},
	{
		name: "lldp", title: "LLDP", key: "parsed_lldp", hook: true, list: named("interface"),
		columns: []column{
			{"Interface", []string{"interface"}, nil},
			{"Switch", []string{"switch_system_name"}, nil},
			{"Chassis", []string{"switch_chassis_id"}, nil},
			{"Port", []string{"switch_port_id"}, nil},
			{"Port Description", []string{"switch_port_description"}, nil},
			{"VLAN", []string{"switch_port_untagged_vlan_id"}, nil},
			{"VLANs", []string{"switch_port_vlans"}, vlans},
			{"MTU", []string{"switch_port_mtu"}, nil},
			{"Management", []string{"switch_mgmt_addresses"}, nil},
		},
	},
	{
		name: "pci", title: "PCI Devices", key: "pci_devices", hook: true, onRequest: true,
		columns: []column{
			{"Bus", []string{"bus", "pci_address"}, nil},
			{"Vendor", []string{"vendor_id"}, nil},
			{"Product", []string{"product_id"}, nil},
			{"Class", []string{"class"}, nil},
			{"Revision", []string{"revision"}, nil},
			{"NUMA Node", []string{"numa_node_id"}, nil},
		},
	},
	{
		name: "numa", title: "NUMA Nodes", key: "numa_topology", hook: true, onRequest: true, list: numaNodes,
		columns: []column{
			{"Node", []string{"numa_node"}, nil},
			{"Memory", []string{"size_kb"}, bytesOf(1 << 10)},
			{"Cores", []string{"cores"}, nil},
			{"Threads", []string{"threads"}, nil},
			{"Interfaces", []string{"nics"}, nil},
		},
	},
	{name: "extra", title: "Extra Hardware Facts", key: "extra", hook: true, onRequest: true},
	{
		name: "plugin", title: "Plugin Data", key: "plugin_data", hook: true, onRequest: true, list: memberSummaries,
		columns: []column{{"Key", []string{"key"}, nil}, {"Holds", []string{"holds"}, nil}, {"Size", []string{"size"}, bytesOf(1)}},
	},
}

// others returns sections for the members of the inventory that no known section shows, sorted by
// name.
func (f findings) others() []section {
	known := map[string]bool{}
	for _, s := range inventorySections {
		if s.hook {
			continue
		}
		known[s.key] = true
		for _, key := range s.keys {
			known[key] = true
		}
	}
	var more []section
	for _, key := range slices.Sorted(maps.Keys(f.inventory)) {
		if !known[key] {
			more = append(more, section{name: key, title: columnTitle(key), key: key, columns: columnsOf(f.inventory[key])})
		}
	}
	return more
}

// columnsOf returns a column for each field of any object in a list. It returns nil if the value is
// no list of objects.
func columnsOf(value any) []column {
	list, _ := value.([]any)
	names := map[string]bool{}
	for _, item := range list {
		object, _ := item.(map[string]any)
		for name := range object {
			names[name] = true
		}
	}
	var columns []column
	for _, name := range slices.Sorted(maps.Keys(names)) {
		columns = append(columns, column{columnTitle(name), []string{name}, nil})
	}
	return columns
}

// value returns the section's part of the findings, nil when there is none.
func (s section) value(f findings) any {
	from := f.inventory
	if s.hook {
		from = f.plugin
	}
	if s.key == "plugin_data" && s.hook {
		if from == nil {
			return nil
		}
		return from
	}
	if s.key != "" {
		return from[s.key]
	}
	some := map[string]any{}
	for _, key := range s.keys {
		if value := from[key]; value != nil {
			some[key] = value
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some
}

// titles returns the column titles of the section's table.
func (s section) titles() []string {
	if len(s.columns) == 0 {
		return []string{"Field", "Value"}
	}
	titles := make([]string, len(s.columns))
	for i, c := range s.columns {
		titles[i] = c.title
	}
	return titles
}

// rows returns the rows of the section's table. Machines report unusual values: a value that does not
// have the usual shape of its section is shown field by field.
func (s section) rows(f findings) []document {
	value := s.value(f)
	if len(s.columns) == 0 {
		return s.fieldRows(value)
	}
	list := s.list
	if list == nil {
		list = listItems
	}
	items := list(value)
	if items == nil {
		return renameColumns(s.titles(), s.fieldRows(value))
	}
	rows := make([]document, len(items))
	for i, item := range items {
		fields := map[string]any{}
		for _, c := range s.columns {
			fields[c.title] = c.cell(item)
		}
		rows[i] = document{fields: fields}
		rows[i].fields["name"] = fields[s.columns[0].title]
	}
	return rows
}

// cell returns the column's value for an item, nil when the item has none.
func (c column) cell(item map[string]any) any {
	for _, field := range c.from {
		if value := item[field]; value != nil && value != "" {
			if c.as == nil {
				return plain(value)
			}
			return c.as(value)
		}
	}
	return nil
}

// fieldRows returns a row for each field of a value and of the objects in it. It leaves out empty
// fields.
func (s section) fieldRows(value any) []document {
	var rows []document
	for _, leaf := range leaves("", value) {
		shown := plain(leaf.value)
		if as := s.fields[leaf.path]; as != nil {
			shown = as(leaf.value)
		}
		path := cmp.Or(leaf.path, s.name)
		if shown == nil || shown == "" {
			continue
		}
		rows = append(rows, document{fields: map[string]any{"Field": path, "Value": shown, "name": path}})
	}
	return rows
}

// renameColumns returns the rows of [section.fieldRows] for a table with other titles. They fill
// its first two columns.
func renameColumns(titles []string, rows []document) []document {
	for i, row := range rows {
		rows[i].fields = map[string]any{titles[0]: row.fields["Field"], titles[1]: row.fields["Value"], "name": row.fields["Field"]}
	}
	return rows
}
