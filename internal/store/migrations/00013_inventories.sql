-- Before a document is deleted, with its node or for a newer one, the database searches the
-- inventories that name it. Without an index that reads all of them.

-- +goose Up
CREATE INDEX inventories_document ON inventories (document_id);
