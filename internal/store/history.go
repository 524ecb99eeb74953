package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// AddEvent appends a row to a node's history and sets its time.
func (tx *Tx) AddEvent(e *node.Event) error {
	e.CreatedAt = tx.Now()
	err := tx.exec(`INSERT INTO history (uuid, node_id, severity, event_type, event, conductor, "user", created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.UUID, e.NodeID, string(e.Severity), e.Type, e.Message, orNull(e.Conductor), orNull(e.User), e.CreatedAt.UnixMicro())
	return err
}

// TrimEvents removes all but the newest rows of a node's history.
func (tx *Tx) TrimEvents(nodeID int64, keep int) error {
	err := tx.exec(`DELETE FROM history WHERE node_id = ? AND id <=
		(SELECT id FROM history WHERE node_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`, nodeID, nodeID, keep)
	return err
}

// Events returns a node's history, oldest first.
func (tx *Tx) Events(nodeID int64) ([]*node.Event, error) {
	events := []*node.Event{}
	err := tx.query(func(rows row) error {
		e := &node.Event{NodeID: nodeID}
		var conductor, user sql.NullString
		var created int64
		if err := rows.Scan(&e.UUID, &e.Severity, &e.Type, &e.Message, &conductor, &user, &created); err != nil {
			return err
		}
		e.Conductor, e.User, e.CreatedAt = conductor.String, user.String, time.UnixMicro(created).UTC()
		events = append(events, e)
		return nil
	}, `SELECT uuid, severity, event_type, event, conductor, "user", created_at FROM history WHERE node_id = ? ORDER BY id`, nodeID)
	return events, err
}

// goneConductor is the age of the last registration at which a conductor is removed.
const goneConductor = 24 * time.Hour

// RegisterConductor records that a conductor is alive, and removes conductors that have not
// registered for a day.
func (tx *Tx) RegisterConductor(c node.Conductor) error {
	drivers, err := json.Marshal(c.Drivers)
	if err != nil {
		return fmt.Errorf("register conductor %s: %w", c.Hostname, err)
	}
	err = tx.exec(`INSERT INTO conductors (hostname, conductor_group, drivers, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (hostname) DO UPDATE SET conductor_group = excluded.conductor_group, drivers = excluded.drivers,
		created_at = coalesce(conductors.created_at, excluded.created_at), updated_at = excluded.updated_at`,
		c.Hostname, orNull(c.Group), string(drivers), tx.Now().UnixMicro(), tx.Now().UnixMicro())
	if err != nil {
		return err
	}
	return tx.exec("DELETE FROM conductors WHERE updated_at < ?", tx.Now().Add(-goneConductor).UnixMicro())
}

// Conductors returns every conductor that has registered within about a day. A conductor whose last
// registration is older than aliveFor is not alive.
func (tx *Tx) Conductors(aliveFor time.Duration) ([]node.Conductor, error) {
	conductors := []node.Conductor{}
	err := tx.query(func(rows row) error {
		var c node.Conductor
		var group sql.NullString
		var drivers string
		var created sql.NullInt64 // null for conductors that an older version registered
		var updated int64
		if err := rows.Scan(&c.Hostname, &group, &drivers, &created, &updated); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(drivers), &c.Drivers); err != nil {
			return fmt.Errorf("read drivers of conductor %s: %w", c.Hostname, err)
		}
		c.Group, c.UpdatedAt = group.String, time.UnixMicro(updated).UTC()
		if created.Valid {
			c.CreatedAt = time.UnixMicro(created.Int64).UTC()
		}
		c.Alive = tx.Now().Sub(c.UpdatedAt) <= aliveFor
		conductors = append(conductors, c)
		return nil
	}, "SELECT hostname, conductor_group, drivers, created_at, updated_at FROM conductors ORDER BY hostname")
	return conductors, err
}
