package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// filter is one query argument that selects nodes.
type filter struct {
	name  string
	since int // microversion 1.N
	parse func(text string) (node.Filter, error)
}

// nodeFilters is every filter of the node list that becomes a condition by
// itself. The arguments that need more are in nodeListConditions.
var nodeFilters = []filter{
	{"instance_uuid", 1, uuidFilter("instance_uuid")},
	{"chassis_uuid", 1, uuidFilter("chassis_uuid")},
	{"associated", 1, setFilter("associated", "instance_uuid")},
	{"maintenance", 1, flagFilter("maintenance")},
	{"provision_state", 9, stateFilter},
	{"driver", 16, textFilter("driver")},
	{"resource_class", 21, textFilter("resource_class")},
	{"fault", 42, faultFilter},
	{"conductor_group", 46, func(text string) (node.Filter, error) {
		return node.Filter{Field: "conductor_group", Value: strings.ToLower(text)}, nil
	}},
	{"owner", 50, textFilter("owner")},
	{"description_contains", 51, func(text string) (node.Filter, error) {
		return node.Filter{Field: "description", Op: node.Contains, Value: text}, nil
	}},
	{"retired", 61, flagFilter("retired")},
	{"lessee", 65, textFilter("lessee")},
	{"shard", 82, func(text string) (node.Filter, error) {
		return node.Filter{Field: "shard", Op: node.OneOf, Value: strings.Split(text, ",")}, nil
	}},
	{"sharded", 82, setFilter("sharded", "shard")},
	{"parent_node", parentSince, uuidFilter("parent_node")},
	{"auto_discovered", 84, flagFilter("auto_discovered")},
	{"instance_name", 104, textFilter("instance_name")},
	{"health", 109, textFilter("health")},
}

// Arguments of the node list with a meaning of their own.
const (
	parentSince    = 83 // include_children, and parent_node
	conductorSince = 49
)

// unbuiltFilter is a query argument of the API that the engine does not have
// yet.
type unbuiltFilter struct {
	list, name string
	since      int
}

var unbuiltFilters = []unbuiltFilter{
	{"nodes", "project", 65},
	{"ports", "portgroup", 24},
	{"ports", "shard", 82},
}

// refuseUnbuilt answers 501 to a filter of the list that is not built yet.
func refuseUnbuilt(c *call, list string) error {
	for _, f := range unbuiltFilters {
		switch {
		case f.list != list || !c.query.Has(f.name):
		case c.version < f.since:
			return notAcceptable("Argument "+f.name, f.since)
		default:
			return notImplemented("The filter %s of %s is part of this API version but not built yet in this engine.", f.name, list)
		}
	}
	return nil
}

// nodeListArgs is every argument that the node list takes.
func nodeListArgs() []string {
	names := append(slices.Clone(pageArgs), "conductor", "include_children", "project")
	for _, f := range nodeFilters {
		names = append(names, f.name)
	}
	return names
}

func textFilter(name string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) { return node.Filter{Field: name, Value: text}, nil }
}

func uuidFilter(name string) func(string) (node.Filter, error) {
	return func(text string) (node.Filter, error) {
		if !isUUID(text) {
			return node.Filter{}, badRequest("Invalid value for argument %s: want a UUID, got %q", name, text)
		}
		return node.Filter{Field: name, Value: strings.ToLower(text)}, nil
	}
}

func flagFilter(name string) func(string) (node.Filter, error) {
	return boolFilter(name, name, node.Equal)
}

// setFilter keeps the nodes where a field is set, or those where it is not.
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

func stateFilter(text string) (node.Filter, error) {
	if !node.State(text).ValidFilter() {
		return node.Filter{}, badRequest("Invalid value for argument provision_state: there is no provision state %q", text)
	}
	return node.Filter{Field: "provision_state", Value: text}, nil
}

func faultFilter(text string) (node.Filter, error) {
	if !slices.Contains(node.Faults(), text) {
		return node.Filter{}, badRequest("Invalid value for argument fault: want one of %s, got %q",
			strings.Join(node.Faults(), ", "), text)
	}
	return node.Filter{Field: "fault", Value: text}, nil
}

// nodeConditions turns the arguments of a node list into filters.
func nodeConditions(c *call) ([]node.Filter, error) {
	var conditions []node.Filter
	for _, f := range nodeFilters {
		if !c.query.Has(f.name) {
			continue
		}
		if c.version < f.since {
			return nil, notAcceptable(fmt.Sprintf("Argument %s", f.name), f.since)
		}
		condition, err := f.parse(strings.Join(c.query[f.name], ","))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition)
	}
	if err := refuseUnbuilt(c, "nodes"); err != nil {
		return nil, err
	}
	return childCondition(c, conditions)
}

// childCondition hides nodes that are part of another one, unless the request
// asks for them.
func childCondition(c *call, conditions []node.Filter) ([]node.Filter, error) {
	if c.query.Has("include_children") && c.version < parentSince {
		return nil, notAcceptable("Argument include_children", parentSince)
	}
	include, err := boolArg(c.query, "include_children", false)
	if err != nil {
		return nil, err
	}
	if include || c.query.Has("parent_node") {
		return conditions, nil
	}
	return append(conditions, node.Filter{Field: "parent_node", Op: node.IsSet, Value: false}), nil
}

// onThisConductor reports whether the filter by conductor leaves anything.
// Every engine process serves every node, so it shows its own name as the
// conductor of all.
func (a *api) onThisConductor(c *call) (bool, error) {
	if !c.query.Has("conductor") {
		return true, nil
	}
	if c.version < conductorSince {
		return false, notAcceptable("Argument conductor", conductorSince)
	}
	return c.query.Get("conductor") == a.options.Hostname, nil
}
