-- Claims are replaced by node and source. An index on the node alone leaves PostgreSQL the
-- choice to read all of the primary key's index instead, which has both columns at its
-- end, and that is what it plans while the table is small.

-- +goose Up
DROP INDEX claims_node;
CREATE INDEX claims_node ON claims (node_id, source);
