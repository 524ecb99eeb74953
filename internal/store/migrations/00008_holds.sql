-- Until when a call that changes the machine may be on its way, although the lease
-- that it was made under is over. Nobody else gets the node before.

-- +goose Up
ALTER TABLE leases ADD COLUMN busy_until BIGINT;
