-- Inspection results in an object store. A row is written before its object is,
-- so that no object is ever without one. A row without a node tells what is to
-- be removed; deleting a node makes its rows such ones.

-- +goose Up
CREATE TABLE inventory_objects (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id     BIGINT REFERENCES nodes (id) ON DELETE SET NULL,
    document_id BIGINT NOT NULL, -- of the document that was processed; it may be gone
    object_key  TEXT NOT NULL,
    kept        BIGINT NOT NULL DEFAULT 0, -- 1: it is the result of its node
    attempts    BIGINT NOT NULL DEFAULT 0, -- how often the store refused to remove it
    not_before  BIGINT -- when it may be removed; null: not known yet
);
CREATE UNIQUE INDEX inventory_objects_document ON inventory_objects (document_id);
CREATE INDEX inventory_objects_node ON inventory_objects (node_id);
