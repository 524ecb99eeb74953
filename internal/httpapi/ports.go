package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

var (
	portListArgs = append(slices.Clone(pageArgs), "address", "node", "node_uuid", "portgroup", "shard")
	nodePortArgs = append(slices.Clone(pageArgs), "address")
)

func (a *api) listPorts(w http.ResponseWriter, r *http.Request) error {
	return a.writeAllPorts(w, r, "ports", false)
}

func (a *api) listPortsDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeAllPorts(w, r, "ports/detail", true)
}

func (a *api) writeAllPorts(w http.ResponseWriter, r *http.Request, path string, detail bool) error {
	c := callOf(r)
	conditions, err := a.portConditions(r)
	if err != nil {
		return err
	}
	return a.writePorts(w, r, c, path, detail, conditions)
}

// portConditions turns the arguments of the port list into filters.
func (a *api) portConditions(r *http.Request) ([]node.Filter, error) {
	c := callOf(r)
	if err := refuseUnbuilt(c, "ports"); err != nil {
		return nil, err
	}
	conditions, err := addressCondition(c)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"node_uuid", "node"} {
		if !c.query.Has(name) {
			continue
		}
		uuid, err := a.portNode(r, c.query.Get(name))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, node.Filter{Field: "node_uuid", Value: uuid})
	}
	return conditions, nil
}

// portNode returns the UUID of the node that a filter names. Without names
// (before 1.5) and for a UUID there is nothing to look up.
func (a *api) portNode(r *http.Request, ident string) (string, error) {
	ident, err := checkIdent(ident, versionOf(r))
	if err != nil || isUUID(ident) {
		return ident, err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return "", fmt.Errorf("list ports of node %s: %w", ident, err)
	}
	return n.UUID, nil
}

func addressCondition(c *call) ([]node.Filter, error) {
	if !c.query.Has("address") {
		return nil, nil
	}
	mac, ok := parseMAC(c.query.Get("address"))
	if !ok {
		return nil, badRequest("Invalid value for argument address: want a MAC address, got %q", c.query.Get("address"))
	}
	return []node.Filter{{Field: "address", Value: mac}}, nil
}

func (a *api) listNodePorts(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodePorts(w, r, "ports", false)
}

func (a *api) listNodePortsDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodePorts(w, r, "ports/detail", true)
}

func (a *api) writeNodePorts(w http.ResponseWriter, r *http.Request, part string, detail bool) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	conditions, err := addressCondition(c)
	if err != nil {
		return err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("list ports of node %s: %w", ident, err)
	}
	conditions = append(conditions, node.Filter{Field: "node_uuid", Value: n.UUID})
	return a.writePorts(w, r, c, "nodes/"+n.UUID+"/"+part, detail, conditions)
}

func (a *api) writePorts(w http.ResponseWriter, r *http.Request, c *call, path string, detail bool, conditions []node.Filter) error {
	fields, err := listFields(c, portTable, detail)
	if err != nil {
		return err
	}
	query, err := parsePage(c, portTable)
	if err != nil {
		return err
	}
	query.Filters = conditions
	ports, err := a.engine.Ports(r.Context(), query)
	if err != nil {
		return fmt.Errorf("list ports: %w", err)
	}
	list := page[node.Port]{
		name: "ports", path: path, items: ports, fields: fields, limit: query.Limit,
		last: func(p *node.Port) string { return p.UUID },
	}
	return list.write(w, c, a.viewOf(c))
}

func (a *api) showPort(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	fields, err := itemFields(c, portTable)
	if err != nil {
		return err
	}
	uuid, err := portUUID(r)
	if err != nil {
		return err
	}
	p, err := a.engine.Port(r.Context(), uuid)
	if err != nil {
		return fmt.Errorf("read port %s: %w", uuid, err)
	}
	return a.writePort(w, c, http.StatusOK, p, fields)
}

func (a *api) writePort(w http.ResponseWriter, c *call, status int, p *node.Port, fields []*field[node.Port]) error {
	v := a.viewOf(c)
	return answer(w, status, func(dst []byte) []byte { return appendItem(dst, v, p, fields) })
}

// portUUID returns the UUID that the path addresses a port by; a MAC address
// is no way to name one.
func portUUID(r *http.Request) (string, error) {
	uuid := r.PathValue("uuid")
	if !isUUID(uuid) {
		return "", badRequest("Expected the UUID of a port, got %q", node.CutText(uuid))
	}
	return strings.ToLower(uuid), nil
}
