-- How an engine knows that its database is a copy of an older state, and what it
-- suspends then.
--
-- One row counts how often engines have signed the database; written_in names the
-- transaction that wrote it, on PostgreSQL. One row says what is suspended now, and
-- why; the nodes are those with leases of nobody. And where a machine was seen in
-- another power state than its node has, while nothing was done about it.

-- +goose Up
CREATE TABLE lineage (
    id         BIGINT PRIMARY KEY,
    signatures BIGINT NOT NULL,
    written_in TEXT
);
CREATE TABLE suspension (
    id       BIGINT PRIMARY KEY,
    reason   TEXT,
    detail   TEXT,
    since    BIGINT,
    ended_at BIGINT
);
CREATE TABLE power_differences (
    node_id     INTEGER PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    observed    TEXT NOT NULL,
    observed_at BIGINT NOT NULL
);
