package store

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/node"
)

// Hardware returns what was last read of a machine's settings; empty lists when
// nothing was.
func (tx *Tx) Hardware(nodeID int64) (node.Hardware, error) {
	var hardware node.Hardware
	var bios, firmware sql.NullString
	found, err := tx.one("SELECT bios, firmware FROM hardware WHERE node_id = ?", []any{nodeID}, &bios, &firmware)
	if err != nil || !found {
		return hardware, err
	}
	for _, part := range []struct {
		text   string
		target any
	}{{bios.String, &hardware.BIOS}, {firmware.String, &hardware.Firmware}} {
		if part.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(part.text), part.target); err != nil {
			return hardware, fmt.Errorf("read hardware of node %d: %w", nodeID, err)
		}
	}
	return hardware, nil
}

// SetHardware stores what was read of a machine's settings. A setting or
// component keeps the time it was first seen, and the time of its last change.
func (tx *Tx) SetHardware(nodeID int64, hardware node.Hardware) error {
	before, err := tx.Hardware(nodeID)
	if err != nil {
		return err
	}
	after := hardware.DatedFrom(before, tx.Now())
	if after.Equal(before) {
		return nil
	}
	bios, err := json.Marshal(after.BIOS)
	if err != nil {
		return fmt.Errorf("store BIOS settings of node %d: %w", nodeID, err)
	}
	firmware, err := json.Marshal(after.Firmware)
	if err != nil {
		return fmt.Errorf("store firmware of node %d: %w", nodeID, err)
	}
	err = tx.exec(`INSERT INTO hardware (node_id, bios, firmware) VALUES (?, ?, ?)
		ON CONFLICT (node_id) DO UPDATE SET bios = excluded.bios, firmware = excluded.firmware`,
		nodeID, string(bios), string(firmware))
	return err
}
