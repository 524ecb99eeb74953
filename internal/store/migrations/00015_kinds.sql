-- Due work of some kinds alone is found by an index, however much other work is due.

-- +goose Up
CREATE INDEX work_free_kind ON work (kind, not_before, id) WHERE epoch IS NULL;
