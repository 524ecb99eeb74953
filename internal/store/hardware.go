package store

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/ingot-metal/ingot/internal/node"
)

// Hardware returns the settings of a machine as last read; empty lists when they were never read.
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

// SetHardware stores the settings of a machine as read. Each setting and component keeps the time
// when it was first seen and the time of its last change.
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
