-- When a conductor registered first.

-- +goose Up
ALTER TABLE conductors ADD COLUMN created_at BIGINT;
