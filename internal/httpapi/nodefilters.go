package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// nodeFilters has the filters of the node list. The arguments conductor and
// include_children are not among them; see nodesOfConductor and childCondition.
var nodeFilters = []filter{
	{name: "instance_uuid", since: 1, parse: uuidFilter("instance_uuid")},
	{name: "chassis_uuid", since: 1, parse: uuidFilter("chassis_uuid")},
	{name: "associated", since: 1, parse: setFilter("associated", "instance_uuid")},
	{name: "maintenance", since: 1, parse: flagFilter("maintenance")},
	{name: "provision_state", since: 9, parse: stateFilter},
	{name: "driver", since: 16, parse: textFilter("driver")},
	{name: "resource_class", since: 21, parse: textFilter("resource_class")},
	{name: "fault", since: 42, parse: faultFilter},
	{name: "conductor_group", since: 46, parse: func(text string) (node.Filter, error) {
		return node.Filter{Field: "conductor_group", Value: strings.ToLower(text)}, nil
	}},
	{name: "owner", since: 50, parse: textFilter("owner")},
	{name: "description_contains", since: 51, parse: containsFilter("description")},
	{name: "retired", since: 61, parse: flagFilter("retired")},
	{name: "lessee", since: 65, parse: textFilter("lessee")},
	{name: "project", since: 65, parse: projectFilter},
	{name: "shard", since: 82, parse: anyOfFilter("shard")},
	{name: "sharded", since: 82, parse: setFilter("sharded", "shard")},
	{name: "parent_node", since: parentSince, parse: uuidFilter("parent_node")},
	{name: "auto_discovered", since: 84, parse: flagFilter("auto_discovered")},
	{name: "instance_name", since: 104, parse: textFilter("instance_name")},
	{name: "health", since: 109, parse: textFilter("health")},
}

// Microversions 1.N that introduced further arguments of the node list.
const (
	parentSince    = 83 // include_children, and parent_node
	conductorSince = 49
)

// nodeListArgs returns every argument of the node list.
func nodeListArgs() []string { return filterArgs(nodeFilters, "conductor", "include_children") }

// projectFilter keeps nodes whose owner or lessee is the project.
func projectFilter(text string) (node.Filter, error) {
	return node.Filter{Field: "owner", Value: text, Or: &node.Filter{Field: "lessee", Value: text}}, nil
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

// nodeConditions returns the conditions that the arguments of a node list make.
func (a *api) nodeConditions(r *http.Request) ([]node.Filter, error) {
	conditions, err := a.conditions(r, nodeFilters)
	if err != nil {
		return nil, err
	}
	return childCondition(callOf(r), conditions)
}

// childCondition excludes nodes that have a parent, unless the request asks for them.
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
