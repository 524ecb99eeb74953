package storetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
)

var filterBehaviours = []behaviour{
	{"every operator keeps what it says", checkFilterOperators},
	{"text from a client stands for itself", checkFilterEscaping},
	{"all filters must hold", checkFiltersCombine},
	{"ports are filtered by node", checkPortFilters},
	{"a filter that makes no sense is an error", checkFilterErrors},
}

// named returns the names of the nodes that the filters keep, in order of
// creation.
func (e *env) named(filters ...node.Filter) []string {
	e.t.Helper()
	names := []string{}
	for _, n := range e.nodes(node.Query{Filters: filters}) {
		names = append(names, n.Name)
	}
	return names
}

func checkFilterOperators(t *testing.T, e *env) {
	no, yes := false, true
	for _, n := range []*node.Node{
		{Name: "a", ProvisionState: node.Enroll, AutoDiscovered: true, ConductorGroup: "row1", SecureBoot: &no},
		{Name: "b", ProvisionState: node.Manageable, InstanceUUID: "i1", Description: "Left rack", SecureBoot: &yes},
		{Name: "c", ProvisionState: node.Available, AutoDiscovered: true, Retired: true, Description: "RIGHT RACK"},
	} {
		e.createNode(func(created *node.Node) {
			n.UUID, n.Driver = created.UUID, created.Driver
			*created = *n
		})
	}
	for name, tc := range map[string]struct {
		filter node.Filter
		want   []string
	}{
		"equal text":          {node.Filter{Field: "provision_state", Value: "enroll"}, []string{"a"}},
		"equal unknown text":  {node.Filter{Field: "provision_state", Value: "nowhere"}, []string{}},
		"equal empty":         {node.Filter{Field: "conductor_group", Value: ""}, []string{"b", "c"}},
		"equal true":          {node.Filter{Field: "auto_discovered", Value: true}, []string{"a", "c"}},
		"equal false":         {node.Filter{Field: "auto_discovered", Value: false}, []string{"b"}},
		"equal optional bool": {node.Filter{Field: "secure_boot", Value: false}, []string{"a"}},
		"one of":              {node.Filter{Field: "provision_state", Op: node.OneOf, Value: []string{"enroll", "available", "x"}}, []string{"a", "c"}},
		"one of nothing":      {node.Filter{Field: "provision_state", Op: node.OneOf, Value: []string{}}, []string{}},
		"contains":            {node.Filter{Field: "description", Op: node.Contains, Value: "raCK"}, []string{"b", "c"}},
		"contains part":       {node.Filter{Field: "description", Op: node.Contains, Value: "left"}, []string{"b"}},
		"set":                 {node.Filter{Field: "instance_uuid", Op: node.IsSet, Value: true}, []string{"b"}},
		"not set":             {node.Filter{Field: "instance_uuid", Op: node.IsSet, Value: false}, []string{"a", "c"}},
		"set optional bool":   {node.Filter{Field: "secure_boot", Op: node.IsSet, Value: true}, []string{"a", "b"}},
		"interface":           {node.Filter{Field: "boot_interface", Value: ""}, []string{"a", "b", "c"}},
	} {
		if diff := cmp.Diff(tc.want, e.named(tc.filter)); diff != "" {
			t.Errorf("%s: nodes (-want +got):\n%s", name, diff)
		}
	}
}

func checkFilterEscaping(t *testing.T, e *env) {
	for name, description := range map[string]string{
		"percent": "100% cold", "underscore": "left_rack", "backslash": `C:\rack`, "quote": "Ole's", "plain": "leftXrack 100 Crack Oles",
		"umlaut": "Straße Öl",
	} {
		e.createNode(func(n *node.Node) { n.Name, n.Description = name, description })
	}
	for text, want := range map[string][]string{
		"%": {"percent"}, "_": {"underscore"}, `\`: {"backslash"}, "'": {"quote"}, "0%": {"percent"}, `:\r`: {"backslash"},
		"Straße Öl": {"umlaut"}, "ÖL": {"umlaut"}, `" OR 1=1 --`: {}, "left_": {"underscore"},
	} {
		got := e.named(node.Filter{Field: "description", Op: node.Contains, Value: text})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("contains %q (-want +got):\n%s", text, diff)
		}
	}
	if got := e.named(node.Filter{Field: "description", Value: "Ole's"}); !slices.Equal(got, []string{"quote"}) {
		t.Errorf("equal with a quote = %v", got)
	}
}

func checkFiltersCombine(t *testing.T, e *env) {
	e.createNode(func(n *node.Node) { n.Name, n.AutoDiscovered, n.Maintenance = "both", true, true })
	e.createNode(func(n *node.Node) { n.Name, n.AutoDiscovered = "one", true })
	got := e.named(node.Filter{Field: "auto_discovered", Value: true}, node.Filter{Field: "maintenance", Value: true})
	if !slices.Equal(got, []string{"both"}) {
		t.Errorf("nodes = %v, want the one that both filters keep", got)
	}
}

func checkPortFilters(t *testing.T, e *env) {
	n, other := e.createNode(), e.createNode()
	mine := e.createPort(n, "02:00:00:00:00:01")
	e.createPort(other, "02:00:00:00:00:02")
	for name, tc := range map[string]struct {
		filter node.Filter
		want   int
	}{
		"node":         {node.Filter{Field: "node_uuid", Value: n.UUID}, 1},
		"unknown node": {node.Filter{Field: "node_uuid", Value: "nobody"}, 0},
		"address":      {node.Filter{Field: "address", Value: mine.Address}, 1},
	} {
		ports := e.ports(node.Query{Filters: []node.Filter{tc.filter}})
		if len(ports) != tc.want || tc.want == 1 && ports[0].UUID != mine.UUID {
			t.Errorf("%s: %d ports, want %d", name, len(ports), tc.want)
		}
	}
}

func checkFilterErrors(t *testing.T, e *env) {
	for name, filter := range map[string]node.Filter{
		"unknown field": {Field: "color", Value: "red"},
		"SQL as field":  {Field: "name OR 1=1", Value: "red"},
		"no value":      {Field: "name"},
		"wrong type":    {Field: "name", Op: node.Contains, Value: true},
	} {
		for kind, list := range map[string]func(tx *store.Tx) error{
			"nodes": func(tx *store.Tx) error { _, err := tx.Nodes(node.Query{Filters: []node.Filter{filter}}); return err },
			"ports": func(tx *store.Tx) error { _, err := tx.Ports(node.Query{Filters: []node.Filter{filter}}); return err },
		} {
			if err := e.store.Read(t.Context(), list); err == nil {
				t.Errorf("%s, %s: no error", kind, name)
			}
		}
	}
}
