package store

import "github.com/ingot-metal/ingot/internal/node"

// inventoryKind names a missing inspection result in errors.
const inventoryKind = "Inventory of node"

// AddDocument stores an inspection document as it was posted and returns its key.
func (tx *Tx) AddDocument(nodeID int64, document node.InspectionData) (int64, error) {
	return tx.insertNext("documents", "id", "node_id, inventory, plugin_data, created_at", "?, ?, ?, ?",
		nodeID, string(document.Inventory), string(document.PluginData), tx.Now().UnixMicro())
}

// Document returns the document with a key that AddDocument returned, or a *node.NotFoundError.
func (tx *Tx) Document(id int64) (*node.InspectionData, error) {
	return tx.inspectionData("SELECT inventory, plugin_data FROM documents WHERE id = ?", "Inspection document of node", "", id)
}

// FinishInspection makes a document the node's inspection result, with the plugin data as the hooks
// left it, and removes the documents before it.
func (tx *Tx) FinishInspection(nodeID, documentID int64, pluginData []byte) error {
	if err := tx.exec(`INSERT INTO inventories (node_id, document_id, plugin_data) VALUES (?, ?, ?)
		ON CONFLICT (node_id) DO UPDATE SET document_id = excluded.document_id, plugin_data = excluded.plugin_data`,
		nodeID, documentID, string(pluginData)); err != nil {
		return err
	}
	err := tx.exec("DELETE FROM documents WHERE node_id = ? AND id < ?", nodeID, documentID)
	return err
}

// DropDocuments removes a document, all documents before it, and the result.
func (tx *Tx) DropDocuments(nodeID, documentID int64) error {
	if err := tx.exec("DELETE FROM inventories WHERE node_id = ?", nodeID); err != nil {
		return err
	}
	return tx.exec("DELETE FROM documents WHERE node_id = ? AND id <= ?", nodeID, documentID)
}

// Inspection returns the result of the node's last successful inspection, or a
// *node.NotFoundError when there was none or it is not in the database.
func (tx *Tx) Inspection(n *node.Node) (*node.InspectionData, error) {
	return tx.inspectionData(`SELECT documents.inventory, inventories.plugin_data FROM inventories
		JOIN documents ON documents.id = inventories.document_id WHERE inventories.node_id = ?`, inventoryKind, n.UUID, n.ID)
}

// LastDocument returns the document that the node's machine posted last, processed or not, or a
// *node.NotFoundError.
func (tx *Tx) LastDocument(n *node.Node) (*node.InspectionData, error) {
	return tx.inspectionData("SELECT inventory, plugin_data FROM documents WHERE node_id = ? ORDER BY id DESC LIMIT 1", "Inspection document of node", n.UUID, n.ID)
}

// LastDocumentID returns the key of the document that LastDocument returns, or a
// *node.NotFoundError.
func (tx *Tx) LastDocumentID(n *node.Node) (id int64, err error) {
	found, err := tx.one("SELECT id FROM documents WHERE node_id = ? ORDER BY id DESC LIMIT 1", []any{n.ID}, &id)
	if err == nil && !found {
		err = &node.NotFoundError{Kind: "Inspection document of node", Ident: n.UUID}
	}
	return id, err
}

// MoveInspection moves the documents and the inspection result of a node to another node that has
// none.
func (tx *Tx) MoveInspection(from, to int64) error {
	for _, table := range []string{"documents", "inventories", "inventory_objects"} {
		if err := tx.exec("UPDATE "+table+" SET node_id = ? WHERE node_id = ?", to, from); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) inspectionData(query, kind, ident string, id int64) (*node.InspectionData, error) {
	var inventory, pluginData string
	found, err := tx.one(query, []any{id}, &inventory, &pluginData)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &node.NotFoundError{Kind: kind, Ident: ident}
	}
	return &node.InspectionData{Inventory: []byte(inventory), PluginData: []byte(pluginData)}, nil
}
