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
	return a.writeNodes(w, r, "nodes", true)
}

// writeNodes answers with the nodes that match the conditions and the filters of the
// request.
func (a *api) writeNodes(w http.ResponseWriter, r *http.Request, path string, detail bool, conditions ...node.Filter) error {
	c := callOf(r)
	asked, err := a.nodeConditions(r)
	if err != nil {
		return err
	}
	read, err := a.nodesOfConductor(r)
	if err != nil {
		return err
	}
	return writeList(a, w, r, list[node.Node]{
		table: nodeTable, name: "nodes", path: path, detail: detail, detailSince: detailSince,
		unpaged: c.query.Has("instance_uuid"), conditions: append(asked, conditions...),
		read: read, knowsBrief: true,
		uuid: func(n *node.Node) string { return n.UUID },
	})
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
	return showItem(a, w, r, n, fields)
}

// stateFields are the fields in the answer to GET states.
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
	return showItem(a, w, r, n, fields)
}

// listChildren answers with the UUIDs of the nodes whose parent is this node.
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
	children, err := a.engine.Nodes(r.Context(), node.Query{Filters: []node.Filter{{Field: "parent_node", Value: parent.UUID}}, Brief: true})
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

// showInventory answers with the inventory and plugin data of the last inspection, as
// they are stored.
func (a *api) showInventory(w http.ResponseWriter, r *http.Request) error {
	ident, err := a.nodeIdent(r)
	if err != nil {
		return err
	}
	leave, err := a.enterLarge(r, a.largeAnswers)
	if err != nil {
		return err
	}
	defer leave()
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
