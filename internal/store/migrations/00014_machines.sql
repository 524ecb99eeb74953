-- Which machine each node stands for becomes a claim, by which it is found. Only nodes that
-- were managed or inspected through their BMC have noted one.

-- +goose Up
INSERT INTO claims (address, kind, node_id, source)
SELECT lower(noted.text), 'machine', noted.id, 'identity' FROM (
    SELECT id, json_extract(driver_internal_info, '$.machine_identity.uuid') AS text FROM nodes
        WHERE driver_internal_info LIKE '%"machine_identity"%'
    UNION SELECT id, json_extract(driver_internal_info, '$.machine_identity.serial_number') FROM nodes
        WHERE driver_internal_info LIKE '%"machine_identity"%'
) AS noted WHERE noted.text <> '';
