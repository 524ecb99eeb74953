-- Which machine each node stands for is a claim, by which it is found. There is nothing to do here: the engine claims
-- at its start what earlier releases have noted, since engines of such a release may run beside it after this migration.

-- +goose Up
