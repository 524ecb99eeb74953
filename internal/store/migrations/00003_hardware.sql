-- What was last read of a machine's own settings: lists as JSON text.

-- +goose Up
CREATE TABLE hardware (
    node_id  INTEGER PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    bios     TEXT,
    firmware TEXT
);
