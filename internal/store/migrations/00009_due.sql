-- Work that may be claimed is found by an index, however much is parked or under
-- work: epoch names the lease of its node, and the end of that lease clears it. A
-- lease that the program before granted is not named; a claim looks at the leases as
-- well. Likewise the nodes that an allocation may take.

-- +goose Up
ALTER TABLE work ADD COLUMN epoch BIGINT REFERENCES leases (epoch) ON DELETE SET NULL ON UPDATE SET NULL;
CREATE INDEX work_epoch ON work (epoch) WHERE epoch IS NOT NULL;
CREATE INDEX work_free ON work (not_before, id) WHERE epoch IS NULL;
CREATE INDEX leases_expiry ON leases (expires_at);
CREATE INDEX nodes_free ON nodes (resource_class, id)
    WHERE provision_state = 'available' AND instance_uuid IS NULL AND maintenance = 0 AND retired = 0;
