-- What belongs to nodes or groups them, and what clients keep beside them.
-- Lists of words are comma-separated text, lists of steps JSON text.

-- +goose Up
ALTER TABLE nodes ADD COLUMN traits TEXT;
CREATE INDEX nodes_chassis ON nodes (chassis_uuid) WHERE chassis_uuid IS NOT NULL;
CREATE INDEX nodes_resource_class ON nodes (resource_class) WHERE resource_class IS NOT NULL;

ALTER TABLE ports ADD COLUMN description TEXT;
ALTER TABLE ports ADD COLUMN vendor TEXT;
ALTER TABLE ports ADD COLUMN category TEXT;
CREATE INDEX ports_portgroup ON ports (portgroup_uuid) WHERE portgroup_uuid IS NOT NULL;

CREATE TABLE chassis (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid        TEXT NOT NULL,
    description TEXT,
    extra       TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT
);
CREATE UNIQUE INDEX chassis_uuid ON chassis (uuid);

CREATE TABLE portgroups (
    id                         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid                       TEXT NOT NULL,
    node_id                    BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    name                       TEXT,
    address                    TEXT,
    mode                       TEXT,
    standalone_ports_supported BIGINT NOT NULL DEFAULT 0,
    physical_network           TEXT,
    category                   TEXT,
    properties                 TEXT,
    internal_info              TEXT,
    extra                      TEXT,
    created_at                 BIGINT NOT NULL,
    updated_at                 BIGINT
);
CREATE UNIQUE INDEX portgroups_uuid ON portgroups (uuid);
CREATE UNIQUE INDEX portgroups_name ON portgroups (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX portgroups_address ON portgroups (address) WHERE address IS NOT NULL;
CREATE INDEX portgroups_node ON portgroups (node_id);

-- An allocation in state "allocating" is work that any conductor may take up.
CREATE TABLE allocations (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid            TEXT NOT NULL,
    node_id         BIGINT REFERENCES nodes (id) ON DELETE CASCADE,
    name            TEXT,
    resource_class  TEXT,
    candidate_nodes TEXT,
    traits          TEXT,
    owner           TEXT,
    state           TEXT NOT NULL,
    last_error      TEXT,
    extra           TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT
);
CREATE UNIQUE INDEX allocations_uuid ON allocations (uuid);
CREATE UNIQUE INDEX allocations_name ON allocations (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX allocations_node ON allocations (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX allocations_open ON allocations (id) WHERE state = 'allocating';

CREATE TABLE deploy_templates (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       TEXT NOT NULL,
    name       TEXT NOT NULL,
    steps      TEXT,
    extra      TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT
);
CREATE UNIQUE INDEX deploy_templates_uuid ON deploy_templates (uuid);
CREATE UNIQUE INDEX deploy_templates_name ON deploy_templates (name);

CREATE TABLE runbooks (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid            TEXT NOT NULL,
    name            TEXT NOT NULL,
    steps           TEXT,
    disable_ramdisk BIGINT NOT NULL DEFAULT 0,
    public          BIGINT NOT NULL DEFAULT 0,
    owner           TEXT,
    extra           TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT
);
CREATE UNIQUE INDEX runbooks_uuid ON runbooks (uuid);
CREATE UNIQUE INDEX runbooks_name ON runbooks (name);

CREATE TABLE volume_connectors (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid         TEXT NOT NULL,
    node_id      BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    type         TEXT NOT NULL,
    connector_id TEXT NOT NULL,
    extra        TEXT,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT
);
CREATE UNIQUE INDEX volume_connectors_uuid ON volume_connectors (uuid);
CREATE UNIQUE INDEX volume_connectors_id ON volume_connectors (type, connector_id);
CREATE INDEX volume_connectors_node ON volume_connectors (node_id);

CREATE TABLE volume_targets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid        TEXT NOT NULL,
    node_id     BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    volume_type TEXT NOT NULL,
    volume_id   TEXT NOT NULL,
    boot_index  BIGINT NOT NULL,
    properties  TEXT,
    extra       TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT
);
CREATE UNIQUE INDEX volume_targets_uuid ON volume_targets (uuid);
CREATE UNIQUE INDEX volume_targets_boot_index ON volume_targets (node_id, boot_index);
