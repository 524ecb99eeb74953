package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// portFilters has the filters of the port list. The lists of one node or port group have only the
// first filter.
var portFilters = []filter{
	{name: "address", since: 1, parse: addressFilter},
	{name: "node", since: 1, find: nodeFilter},
	{name: "node_uuid", since: 1, find: nodeFilter},
	{name: "portgroup", since: 24, find: portgroupFilter},
	{name: "shard", since: 82, parse: anyOfFilter("shard")},
	{name: "description_contains", since: 97, parse: containsFilter("description")},
	{name: "conductor_groups", since: 99, parse: groupsFilter},
}

var (
	partPortFilters = portFilters[:1]
	portListArgs    = filterArgs(portFilters)
	partPortArgs    = filterArgs(partPortFilters)
)

// exclusivePortFilters are groups of filters. A request may use one group only.
var exclusivePortFilters = [][]string{{"node", "node_uuid"}, {"portgroup"}, {"shard"}}

func (a *api) listPorts(w http.ResponseWriter, r *http.Request) error {
	return a.writeAllPorts(w, r, false)
}

func (a *api) listPortsDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeAllPorts(w, r, true)
}

func (a *api) writeAllPorts(w http.ResponseWriter, r *http.Request, detail bool) error {
	conditions, err := a.conditions(r, portFilters)
	if err != nil {
		return err
	}
	if err := checkExclusive(callOf(r), exclusivePortFilters); err != nil {
		return err
	}
	return a.writePorts(w, r, "ports", detail, conditions)
}

// checkExclusive refuses arguments from more than one group.
func checkExclusive(c *call, groups [][]string) error {
	var used []string
	for _, group := range groups {
		for _, name := range group {
			if c.query.Has(name) {
				used = append(used, name)
				break
			}
		}
	}
	if len(used) > 1 {
		return &node.ForbiddenError{Reason: fmt.Sprintf("The arguments %s cannot be combined.", node.Choices(used))}
	}
	return nil
}

func (a *api) listNodePorts(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodePorts(w, r, false)
}

func (a *api) listNodePortsDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodePorts(w, r, true)
}

func (a *api) writeNodePorts(w http.ResponseWriter, r *http.Request, detail bool) error {
	conditions, err := a.conditions(r, partPortFilters)
	if err != nil {
		return err
	}
	n, err := a.pathNode(r)
	if err != nil {
		return err
	}
	conditions = append(conditions, node.Filter{Field: "node_uuid", Value: n.UUID})
	return a.writePorts(w, r, "nodes/"+n.UUID+"/ports", detail, conditions)
}

func (a *api) writePorts(w http.ResponseWriter, r *http.Request, path string, detail bool, conditions []node.Filter) error {
	return writeList(a, w, r, list[node.Port]{
		table: portTable, name: "ports", path: path, detail: detail, detailSince: detailSince, conditions: conditions,
		read: a.engine.Ports, knowsBrief: true, uuid: func(p *node.Port) string { return p.UUID },
	})
}

func (a *api) showPort(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	fields, err := itemFields(c, portTable)
	if err != nil {
		return err
	}
	uuid, err := portIdent(r)
	if err != nil {
		return err
	}
	p, err := a.engine.Port(r.Context(), uuid)
	if err != nil {
		return fmt.Errorf("read port %s: %w", uuid, err)
	}
	return showItem(a, w, r, p, fields)
}

// portNamesSince is the microversion 1.N that introduced names of ports.
const portNamesSince = 88

// portIdent returns the UUID or name of the port in the path. A MAC address is neither.
func portIdent(r *http.Request) (string, error) {
	ident := r.PathValue("uuid")
	switch {
	case isUUID(ident):
		return strings.ToLower(ident), nil
	case versionOf(r) < portNamesSince || len(ident) > maxText || !namePattern.MatchString(ident):
		return "", badRequest("Expected the UUID of a port, or its name since 1.%d, got %q", portNamesSince, node.CutText(ident))
	}
	return ident, nil
}
