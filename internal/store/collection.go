package store

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Collection reads and writes the records of one table. It finds a record by UUID, and by name if
// the table has names. Its methods run inside a transaction.
type Collection[T any] struct {
	table    *table[T]
	label    string // for people: "Port group"
	identity func(*T) identity
	unique   []unique
}

// identity points to the fields that every record has besides its own.
type identity struct {
	id               *int64
	uuid             *string
	created, updated *time.Time
	nodeID           *int64  // nil when the records belong to no node
	nodeUUID         *string // set when read
}

// newCollection returns the collection of a table with the columns own, besides the columns of
// every record.
func newCollection[T any](name, label string, identity func(*T) identity, taken []unique, own ...column[T]) *Collection[T] {
	columns := []column[T]{
		intColumn("id", func(t *T) *int64 { return identity(t).id }),
		requiredTextColumn("uuid", func(t *T) *string { return identity(t).uuid }),
		timeColumn("created_at", func(t *T) *time.Time { return identity(t).created }),
		timeColumn("updated_at", func(t *T) *time.Time { return identity(t).updated }),
	}
	if identity(new(T)).nodeID != nil {
		columns = append(columns, keyColumn("node_id", func(t *T) *int64 { return identity(t).nodeID }))
	}
	taken = append([]unique{{[]string{"uuid"}, label + " %v already exists."}}, taken...)
	return &Collection[T]{label: label, identity: identity, unique: taken, table: newTable(name, append(columns, own...))}
}

// keyColumn is the key of another record; null when there is no such record.
func keyColumn[T any](name string, field func(*T) *int64) column[T] {
	c := intColumn(name, field)
	c.get = func(t *T) any {
		if *field(t) == 0 {
			return nil
		}
		return *field(t)
	}
	return c
}

// arrayColumn stores the empty array as null.
func arrayColumn[T any](name string, field func(*T) *node.Array) column[T] {
	return newColumn(name,
		func(t *T) any { return orNull(string(*field(t))) },
		func(t *T, v any) error {
			text, err := asText(v)
			*field(t) = nil
			if text != "" {
				*field(t) = node.Array(text)
			}
			return err
		})
}

// unique is a value, of one or several columns, that only one record may have. A record with null
// in one of the columns has no such value.
type unique struct {
	columns []string
	text    string // for clients, with a verb for the values it names
}

// ofNode are fields of a record's node that lists of the records may be filtered by.
var ofNode = map[string]string{"shard": "nodes.shard", "conductor_group": "nodes.conductor_group"}

// List returns the page of records that the query asks for. Records of a node
// may be filtered by "node_uuid" as if it were a column.
func (c *Collection[T]) List(tx *Tx, q node.Query) ([]*T, error) {
	q, err := tx.nodeIDFilter(q)
	if err != nil {
		return nil, err
	}
	tail, args, err := pageClause(tx, c.table.name, q, c.column)
	if err != nil {
		return nil, err
	}
	return c.read(tx, q.MaxBytes, tail, args...)
}

func (c *Collection[T]) column(field string) (string, bool) {
	if joined, ok := ofNode[field]; ok && c.owned() {
		return joined, true
	}
	return c.table.column(field)
}

// owned reports whether the records belong to nodes.
func (c *Collection[T]) owned() bool { return c.identity(new(T)).nodeID != nil }

// nodeIDFilter replaces a filter by the UUID of a node with a filter by its key, which has an
// index.
func (tx *Tx) nodeIDFilter(q node.Query) (node.Query, error) {
	filters := make([]node.Filter, len(q.Filters))
	for i, f := range q.Filters {
		if ident, ok := f.Value.(string); ok && f.Field == "node_uuid" {
			var id int64
			if _, err := tx.one("SELECT id FROM nodes WHERE uuid = ?", []any{ident}, &id); err != nil {
				return q, err
			}
			f = node.Filter{Field: "node_id", Op: node.Equal, Value: id}
		}
		filters[i] = f
	}
	q.Filters = filters
	return q, nil
}

// Get returns the record with this UUID or name, or a *node.NotFoundError. In a write, nobody else
// can change the record or its node before the commit.
func (c *Collection[T]) Get(tx *Tx, ident string) (*T, error) {
	return c.find(tx, ident, func(column string) error { return tx.lockRecord(c.table.name, column, ident, c.owned()) })
}

// Refer is Get for a record that another record is about to name. In a write, nobody can change or
// delete the record before the commit, but other writes may refer to it too.
func (c *Collection[T]) Refer(tx *Tx, ident string) (*T, error) {
	return c.find(tx, ident, func(column string) error {
		return tx.lock("SELECT id FROM "+c.table.name+" WHERE "+column+" = ? FOR SHARE", ident)
	})
}

// find returns the record with this UUID or name. It calls lock for a column before it searches
// that column.
func (c *Collection[T]) find(tx *Tx, ident string, lock func(column string) error) (*T, error) {
	for _, name := range identColumns(ident) {
		column, ok := c.table.column(name)
		if !ok {
			continue
		}
		if err := lock(name); err != nil {
			return nil, err
		}
		records, err := c.read(tx, 0, " WHERE "+column+" = ?", ident)
		if err != nil || len(records) > 0 {
			return first(records), err
		}
	}
	return nil, &node.NotFoundError{Kind: c.label, Ident: ident}
}

func first[T any](records []*T) *T {
	if len(records) == 0 {
		return nil
	}
	return records[0]
}

// read returns the records that a clause after FROM selects. For maxBytes see table.pageScanner.
func (c *Collection[T]) read(tx *Tx, maxBytes int, tail string, args ...any) ([]*T, error) {
	query := "SELECT " + c.table.list
	var owner sql.NullString
	var extra []any
	owned := c.owned()
	if owned {
		query += ", nodes.uuid"
		extra = append(extra, &owner)
	}
	query += " FROM " + c.table.name
	if owned {
		query += " LEFT JOIN nodes ON nodes.id = " + c.table.name + ".node_id"
	}
	scan := c.table.pageScanner(maxBytes, extra...)
	records := []*T{}
	err := tx.query(func(rows row) error {
		record, err := scan(rows)
		if err != nil {
			return err
		}
		if owned {
			*c.identity(record).nodeUUID = owner.String
		}
		records = append(records, record)
		return nil
	}, query+tail, args...)
	return records, err
}

// Create stores a new record and sets its key, its creation time and, if it has none, its UUID. A
// value that must be unique but is taken is a *node.ConflictError.
func (c *Collection[T]) Create(tx *Tx, record *T) error {
	self := c.identity(record)
	if *self.uuid == "" {
		*self.uuid = NewUUID()
	}
	*self.created = tx.Now().Truncate(time.Microsecond).UTC()
	id, err := c.table.insert(tx, record)
	if errors.Is(err, errTaken) {
		return cmp.Or(c.checkUnique(tx, nil, record), err)
	}
	if err != nil {
		return err
	}
	*self.id = id
	return nil
}

// Update stores the changes from before to after. If there are any, it sets the time of change in
// after.
func (c *Collection[T]) Update(tx *Tx, before, after *T) error {
	self := c.identity(before)
	if !c.table.changed(before, after) {
		return nil
	}
	if err := c.checkUnique(tx, before, after); err != nil {
		return err
	}
	*c.identity(after).updated = tx.Now().Truncate(time.Microsecond).UTC()
	_, err := c.table.update(tx, before, after, "id = ?", *self.id)
	return err
}

// Delete removes a record and, by foreign keys, the rows that belong to it.
func (c *Collection[T]) Delete(tx *Tx, record *T) error {
	err := tx.exec("DELETE FROM "+c.table.name+" WHERE id = ?", *c.identity(record).id)
	return err
}

// checkUnique refuses new values of after that another record has; before is nil for a new record.
func (c *Collection[T]) checkUnique(tx *Tx, before, after *T) error {
	self := int64(0)
	if before != nil {
		self = *c.identity(before).id
	}
	for _, u := range c.unique {
		values := make([]any, 0, len(u.columns))
		conditions := make([]string, len(u.columns))
		same := before != nil
		for i, name := range u.columns {
			column := c.table.byName[name]
			conditions[i] = name + " = ?"
			if value := column.get(after); value != nil {
				values = append(values, value)
			}
			same = same && column.same(before, after)
		}
		if same || len(values) < len(u.columns) {
			continue
		}
		var id int64
		found, err := tx.one("SELECT id FROM "+c.table.name+" WHERE "+strings.Join(conditions, " AND ")+" AND id <> ?",
			append(slices.Clone(values), self), &id)
		if err != nil {
			return err
		}
		if found {
			return u.conflict(values)
		}
	}
	return nil
}

// conflict returns the error that tells a client that the values are taken.
func (u unique) conflict(values []any) error {
	if !strings.Contains(u.text, "%") {
		return &node.ConflictError{Reason: u.text}
	}
	return node.Conflict(u.text, values...)
}
