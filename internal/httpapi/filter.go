package httpapi

import (
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// filter is a query argument that selects items of a list.
type filter struct {
	name  string
	since int // microversion 1.N
	parse func(text string) (node.Filter, error)
	// find is used instead of parse for arguments that name another item.
	find func(a *api, r *http.Request, text string) (node.Filter, error)
}

// conditions returns the conditions that the arguments of a list request make.
func (a *api) conditions(r *http.Request, filters []filter) ([]node.Filter, error) {
	c := callOf(r)
	var conditions []node.Filter
	for _, f := range filters {
		if !c.query.Has(f.name) {
			continue
		}
		if c.version < f.since {
			return nil, notAcceptable("Argument "+f.name, f.since)
		}
		condition, err := f.read(a, r, strings.Join(c.query[f.name], ","))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition)
	}
	return conditions, nil
}

func (f filter) read(a *api, r *http.Request, text string) (node.Filter, error) {
	if f.find != nil {
		return f.find(a, r, text)
	}
	return f.parse(text)
}

// filterArgs returns every argument of a list with these filters.
func filterArgs(filters []filter, more ...string) []string {
	names := append(append([]string{}, pageArgs...), more...)
	for _, f := range filters {
		names = append(names, f.name)
	}
	return names
}

func textFilter(name string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) { return node.Filter{Field: name, Value: text}, nil }
}

// containsFilter keeps items whose field contains the text, ignoring case.
func containsFilter(field string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) {
		return node.Filter{Field: field, Op: node.Contains, Value: text}, nil
	}
}

// anyOfFilter keeps items whose field is one of the values in a comma list.
func anyOfFilter(field string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) {
		return node.Filter{Field: field, Op: node.OneOf, Value: strings.Split(text, ",")}, nil
	}
}

// groupsFilter keeps items whose node is in one of the conductor groups in a comma
// list. An empty name selects nodes without a group.
func groupsFilter(text string) (node.Filter, error) {
	names := strings.Split(strings.ToLower(text), ",")
	condition := node.Filter{Field: "conductor_group", Op: node.OneOf, Value: names}
	for _, name := range names {
		if name == "" {
			condition.Or = &node.Filter{Field: "conductor_group", Value: ""}
		}
	}
	return condition, nil
}

func uuidFilter(name string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) {
		if !isUUID(text) {
			return node.Filter{}, badRequest("Invalid value for argument %s: want a UUID, got %q", name, text)
		}
		return node.Filter{Field: name, Value: strings.ToLower(text)}, nil
	}
}

// addressFilter keeps the item with a MAC address.
func addressFilter(text string) (node.Filter, error) {
	mac, ok := node.ParseMAC(text)
	if !ok {
		return node.Filter{}, badRequest("Invalid value for argument address: want a MAC address, got %q", text)
	}
	return node.Filter{Field: "address", Value: mac}, nil
}

func flagFilter(name string) func(string) (node.Filter, error) {
	return boolFilter(name, name, node.Equal)
}

// setFilter keeps items whose field is set (true) or is not set (false).
func setFilter(name, field string) func(string) (node.Filter, error) {
	return boolFilter(name, field, node.IsSet)
}

func boolFilter(name, field string, op node.FilterOp) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) {
		flag, ok := parseBool(text)
		if !ok {
			return node.Filter{}, badRequest("Invalid value for argument %s: want true or false, got %q", name, text)
		}
		return node.Filter{Field: field, Op: op, Value: flag}, nil
	}
}

// nodeFilter keeps items of the node that the argument names. The node must exist. Before 1.5 nodes
// have no names.
func nodeFilter(a *api, r *http.Request, ident string) (node.Filter, error) {
	ident, err := checkIdent(ident, versionOf(r))
	if err != nil {
		return node.Filter{}, err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return node.Filter{}, err
	}
	return node.Filter{Field: "node_uuid", Value: n.UUID}, nil
}
