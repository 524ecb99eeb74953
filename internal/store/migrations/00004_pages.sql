-- The first page of the nodes in one state, or with one driver, without sorting
-- all of them: SQLite's indexes end with the key by themselves, PostgreSQL's do
-- when they say so. Programs that run notice nothing but a moment's wait.

-- +goose Up
DROP INDEX nodes_provision_state;
CREATE INDEX nodes_provision_state ON nodes (provision_state /*postgres: , id*/);
DROP INDEX nodes_driver;
CREATE INDEX nodes_driver ON nodes (driver /*postgres: , id*/);
