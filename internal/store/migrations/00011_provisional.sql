-- Whether a discovered node still yields its addresses to registered nodes, because no
-- person has accepted it. Nodes that were discovered before keep theirs.

-- +goose Up
ALTER TABLE nodes ADD COLUMN provisional BIGINT NOT NULL DEFAULT 0;
