package httpapi

import (
	"fmt"
	"net/http"

	"github.com/ingot-metal/ingot/internal/node"
)

func (a *api) listNodes(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodes(w, r, "nodes", false)
}

func (a *api) listNodesDetail(w http.ResponseWriter, r *http.Request) error {
	return a.writeNodes(w, r, "nodes/detail", true)
}

func (a *api) writeNodes(w http.ResponseWriter, r *http.Request, path string, detail bool) error {
	c := callOf(r)
	fields, err := listFields(c, nodeTable, detail)
	if err != nil {
		return err
	}
	query, err := parsePage(c, nodeTable)
	if err != nil {
		return err
	}
	if query.Filters, err = nodeConditions(c); err != nil {
		return err
	}
	if c.query.Has("instance_uuid") { // at most one node: paging has no meaning
		query.Limit, query.Marker = 0, ""
	}
	var nodes []*node.Node
	here, err := a.onThisConductor(c)
	if err == nil && here {
		nodes, err = a.engine.Nodes(r.Context(), query)
	}
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	list := page[node.Node]{
		name: "nodes", path: path, items: nodes, fields: fields, limit: query.Limit,
		last: func(n *node.Node) string { return n.UUID },
	}
	return list.write(w, c, a.viewOf(c))
}

func (a *api) showNode(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	fields, err := itemFields(c, nodeTable)
	if err != nil {
		return err
	}
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read node %s: %w", ident, err)
	}
	return a.writeNode(w, c, http.StatusOK, n, fields)
}

func (a *api) writeNode(w http.ResponseWriter, c *call, status int, n *node.Node, fields []*field[node.Node]) error {
	v := a.viewOf(c)
	return answer(w, status, func(dst []byte) []byte { return appendItem(dst, v, n, fields) })
}

// stateFields is what GET states shows, as far as the version knows it.
var stateFields = []string{
	"console_enabled", "last_error", "power_state", "target_power_state", "provision_state", "target_provision_state",
	"provision_updated_at", "raid_config", "target_raid_config", "boot_mode", "secure_boot",
}

func (a *api) showNodeStates(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	n, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read states of node %s: %w", ident, err)
	}
	var fields []*field[node.Node]
	for _, name := range stateFields {
		if f := nodeTable.byName[name]; f.since <= c.version {
			fields = append(fields, f)
		}
	}
	return a.writeNode(w, c, http.StatusOK, n, fields)
}

// listChildren answers with the UUIDs of the nodes that are part of this one.
func (a *api) listChildren(w http.ResponseWriter, r *http.Request) error {
	c := callOf(r)
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	parent, err := a.engine.Node(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read node %s: %w", ident, err)
	}
	children, err := a.engine.Nodes(r.Context(), node.Query{Filters: []node.Filter{{Field: "parent_node", Value: parent.UUID}}})
	if err != nil {
		return fmt.Errorf("list children of node %s: %w", parent.UUID, err)
	}
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"children":[`...)
		for i, child := range children {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, child.UUID)
		}
		dst = append(dst, `],"links":`...)
		dst = newLinkBase(c.base).appendLinks(dst, "nodes/", parent.UUID, "/children")
		return append(dst, '}')
	})
}

// showInventory answers with what the last inspection left behind, both parts
// as they are stored.
func (a *api) showInventory(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	data, err := a.engine.Inspection(r.Context(), ident)
	if err != nil {
		return fmt.Errorf("read inventory of node %s: %w", ident, err)
	}
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"inventory":`...)
		dst = appendObject(dst, data.Inventory)
		dst = append(dst, `,"plugin_data":`...)
		dst = appendObject(dst, data.PluginData)
		return append(dst, '}')
	})
}
