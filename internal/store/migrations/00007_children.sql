-- The children of a node, without a look at every node.

-- +goose Up
CREATE INDEX nodes_parent ON nodes (parent_node) WHERE parent_node IS NOT NULL;
