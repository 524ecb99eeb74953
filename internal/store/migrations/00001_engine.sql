-- The engine's first schema. Typed columns hold what is filtered, sorted or
-- locked on; open dictionaries are JSON text. Times are microseconds since 1970
-- (UTC), booleans are 0 or 1, null means not set.
--
-- Every migration is written once, for SQLite, and serves PostgreSQL too, for
-- which these words are replaced (capitals matter, see postgresRules):
--
--     INTEGER PRIMARY KEY AUTOINCREMENT  an identity column
--     INTEGER                            BIGINT
--     TEXT                               TEXT COLLATE "C", which sorts by bytes
--     BLOB                               BYTEA
--     ) WITHOUT ROWID                    )
--     /*postgres: …*/                    what stands inside
--
-- So: write a key as INTEGER PRIMARY KEY AUTOINCREMENT, other numbers as BIGINT,
-- and put words that PostgreSQL reserves ("user", "order", …) in double quotes
-- here and in statements. Lists sort null first; an index that a long list is
-- sorted by needs /*postgres: NULLS FIRST, id*/ after its column to serve both.
--
-- Later migrations only add: tables, indexes, and columns that are null or have a
-- default, since the program version before goes on beside the new one and writes
-- rows without them. Nothing that it wrote may be refused now, so an index that is
-- unique comes with its table or not at all. An index may be dropped when the same
-- migration creates it again: on PostgreSQL everybody waits for that table until
-- the index is built, some tenths of a second for 100,000 rows, and notices
-- nothing else. migrations_test.go holds migrations to these rules.

-- +goose Up
CREATE TABLE nodes (
    id                     INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid                   TEXT NOT NULL,
    name                   TEXT,
    driver                 TEXT NOT NULL,
    driver_info            TEXT,
    driver_internal_info   TEXT,
    properties             TEXT,
    extra                  TEXT,
    instance_info          TEXT,
    instance_uuid          TEXT,
    instance_name          TEXT,
    network_data           TEXT,
    power_state            TEXT,
    target_power_state     TEXT,
    provision_state        TEXT NOT NULL,
    target_provision_state TEXT,
    provision_updated_at   BIGINT,
    last_error             TEXT,
    maintenance            BIGINT NOT NULL DEFAULT 0,
    maintenance_reason     TEXT,
    fault                  TEXT,
    health                 TEXT,
    console_enabled        BIGINT NOT NULL DEFAULT 0,
    inspection_started_at  BIGINT,
    inspection_finished_at BIGINT,
    clean_step             TEXT,
    deploy_step            TEXT,
    service_step           TEXT,
    raid_config            TEXT,
    target_raid_config     TEXT,
    resource_class         TEXT,
    bios_interface         TEXT,
    boot_interface         TEXT,
    console_interface      TEXT,
    deploy_interface       TEXT,
    firmware_interface     TEXT,
    inspect_interface      TEXT,
    management_interface   TEXT,
    network_interface      TEXT,
    power_interface        TEXT,
    raid_interface         TEXT,
    rescue_interface       TEXT,
    storage_interface      TEXT,
    vendor_interface       TEXT,
    conductor_group        TEXT,
    automated_clean        BIGINT,
    protected              BIGINT NOT NULL DEFAULT 0,
    protected_reason       TEXT,
    retired                BIGINT NOT NULL DEFAULT 0,
    retired_reason         TEXT,
    owner                  TEXT,
    lessee                 TEXT,
    description            TEXT,
    allocation_uuid        TEXT,
    chassis_uuid           TEXT,
    boot_mode              TEXT,
    secure_boot            BIGINT,
    shard                  TEXT,
    parent_node            TEXT,
    disable_power_off      BIGINT NOT NULL DEFAULT 0,
    auto_discovered        BIGINT NOT NULL DEFAULT 0,
    created_at             BIGINT NOT NULL,
    updated_at             BIGINT
);
CREATE UNIQUE INDEX nodes_uuid ON nodes (uuid);
CREATE UNIQUE INDEX nodes_name ON nodes (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX nodes_instance_uuid ON nodes (instance_uuid) WHERE instance_uuid IS NOT NULL;
CREATE INDEX nodes_provision_state ON nodes (provision_state);
CREATE INDEX nodes_driver ON nodes (driver);
CREATE INDEX nodes_updated_at ON nodes (updated_at /*postgres: NULLS FIRST, id*/);
CREATE INDEX nodes_auto_discovered ON nodes (id) WHERE auto_discovered = 1;

CREATE TABLE ports (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid                  TEXT NOT NULL,
    node_id               BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    address               TEXT NOT NULL,
    name                  TEXT,
    portgroup_uuid        TEXT,
    pxe_enabled           BIGINT NOT NULL DEFAULT 0,
    physical_network      TEXT,
    is_smartnic           BIGINT NOT NULL DEFAULT 0,
    local_link_connection TEXT,
    internal_info         TEXT,
    extra                 TEXT,
    created_at            BIGINT NOT NULL,
    updated_at            BIGINT
);
CREATE UNIQUE INDEX ports_uuid ON ports (uuid);
CREATE UNIQUE INDEX ports_address ON ports (address);
CREATE UNIQUE INDEX ports_name ON ports (name) WHERE name IS NOT NULL;
CREATE INDEX ports_node ON ports (node_id);

-- Which node a MAC or BMC address speaks for besides those of its ports, and
-- why: its inventory has it, or its driver_info names it. A callback is matched
-- against this table and the ports.
CREATE TABLE claims (
    address TEXT NOT NULL,
    kind    TEXT NOT NULL,
    node_id BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    source  TEXT NOT NULL,
    PRIMARY KEY (address, kind, node_id, source)
) WITHOUT ROWID;
CREATE INDEX claims_node ON claims (node_id);

-- Inspection documents as agents sent them, immutable. A node's result names
-- the document it came from, so storing a result does not copy it.
CREATE TABLE documents (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id     BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    inventory   TEXT NOT NULL,
    plugin_data TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX documents_node ON documents (node_id);
CREATE TABLE inventories (
    node_id     INTEGER PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    document_id BIGINT NOT NULL REFERENCES documents (id),
    plugin_data TEXT NOT NULL
);

-- Work that a conductor owes a node. A row is written in the commit of the
-- state that asks for it and removed in the commit of its outcome.
CREATE TABLE work (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id    BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL,
    step       TEXT,
    intent     TEXT,
    attempts   BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX work_due ON work (not_before, id);
CREATE INDEX work_node ON work (node_id);

-- At most one lease a node. The epoch never repeats, so a write that names it
-- is refused once the lease has passed to somebody else.
CREATE TABLE leases (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    node_id    BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    owner      TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX leases_node ON leases (node_id);
CREATE INDEX leases_owner ON leases (owner);

CREATE TABLE conductors (
    hostname        TEXT PRIMARY KEY,
    conductor_group TEXT,
    drivers         TEXT NOT NULL,
    updated_at      BIGINT NOT NULL
);

CREATE TABLE history (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       TEXT NOT NULL,
    node_id    BIGINT NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    severity   TEXT NOT NULL,
    event_type TEXT NOT NULL,
    event      TEXT NOT NULL,
    conductor  TEXT,
    "user"     TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX history_node ON history (node_id, id);
