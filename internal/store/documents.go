package store

// DropUnused removes the documents of a node that never became its inspection result, because the
// inspection failed or was aborted.
func (tx *Tx) DropUnused(nodeID int64) error {
	return tx.exec("DELETE FROM documents WHERE node_id = ? AND id NOT IN (SELECT document_id FROM inventories WHERE node_id = ?)", nodeID, nodeID)
}
