package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/internal/node"
)

// table builds the statements for one kind of record from its columns. The
// record's key is the column "id".
type table[T any] struct {
	name    string
	columns []column[T]
	byName  map[string]column[T]
	list    string // all columns, for SELECT
}

func newTable[T any](name string, columns []column[T]) *table[T] {
	t := &table[T]{name: name, columns: columns, byName: make(map[string]column[T], len(columns))}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = name + "." + c.name
		t.byName[c.name] = c
	}
	t.list = strings.Join(names, ", ")
	return t
}

// part returns the same table with only some of its columns, for reading.
func (t *table[T]) part(names ...string) *table[T] {
	columns := make([]column[T], len(names))
	for i, name := range names {
		columns[i] = t.byName[name]
	}
	return newTable(t.name, columns)
}

// errTaken says that another record has a value that only one record may have.
var errTaken = errors.New("another record has one of its values")

// insert stores the record's non-null columns and returns its key, or errTaken.
func (t *table[T]) insert(tx *Tx, record *T) (int64, error) {
	names := make([]string, 0, len(t.columns))
	args := make([]any, 0, len(t.columns))
	for _, c := range t.columns[1:] { // the first column is the key
		if value := c.get(record); value != nil {
			names = append(names, c.name)
			args = append(args, value)
		}
	}
	id, inserted, err := tx.insertKey("id", "INSERT INTO "+t.name+" ("+strings.Join(names, ", ")+") VALUES ("+marks(len(args))+") ON CONFLICT DO NOTHING", args...)
	if err == nil && !inserted {
		err = fmt.Errorf("add to %s: %w", t.name, errTaken)
	}
	return id, err
}

// update stores the columns that differ between before and after in the row that matches a
// condition, and reports whether there are any.
func (t *table[T]) update(tx *Tx, before, after *T, where string, key ...any) (bool, error) {
	var sets []string
	var args []any
	for _, c := range t.columns[1:] {
		if !c.same(before, after) {
			sets = append(sets, c.name+" = ?")
			args = append(args, c.get(after))
		}
	}
	if len(sets) == 0 {
		return false, nil
	}
	err := tx.exec("UPDATE "+t.name+" SET "+strings.Join(sets, ", ")+" WHERE "+where, append(args, key...)...)
	return true, err
}

// changed reports whether anything but the time of change differs.
func (t *table[T]) changed(before, after *T) bool {
	for _, c := range t.columns {
		if c.name != "updated_at" && !c.same(before, after) {
			return true
		}
	}
	return false
}

// column returns the name of a field in a statement, and whether the field exists.
func (t *table[T]) column(field string) (string, bool) {
	_, ok := t.byName[field]
	return t.name + "." + field, ok
}

// scanner returns a function that reads one row: the columns of the table into a record, then the
// other columns into extra.
func (t *table[T]) scanner(extra ...any) func(row) (*T, error) {
	return t.pageScanner(0, extra...)
}

// pageScanner is scanner for rows whose texts together have not much more than maxBytes bytes. For
// the row after them its function returns node.ErrPageCut. 0 means no limit.
func (t *table[T]) pageScanner(maxBytes int, extra ...any) func(row) (*T, error) {
	size := 0
	values := make([]any, len(t.columns))
	targets := make([]any, 0, len(values)+len(extra))
	for i := range values {
		targets = append(targets, &values[i])
	}
	targets = append(targets, extra...)
	return func(rows row) (*T, error) {
		if maxBytes > 0 && size >= maxBytes {
			return nil, node.ErrPageCut
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("read a row of %s: %w", t.name, err)
		}
		record := new(T)
		for i, c := range t.columns {
			size += textSize(values[i])
			if err := c.set(record, values[i]); err != nil {
				return nil, fmt.Errorf("read column %s of %s: %w", c.name, t.name, err)
			}
		}
		return record, nil
	}
}

// textSize returns the length of a text in bytes, 0 for other values.
func textSize(value any) int {
	switch text := value.(type) {
	case string:
		return len(text)
	case []byte:
		return len(text)
	}
	return 0
}

// unqualified lists the columns without the key, for INSERT.
func (t *table[T]) unqualified() string {
	names := make([]string, 0, len(t.columns))
	for _, c := range t.columns[1:] {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// maxRows is how many rows one statement has at most. Without it, a machine with thousands of
// interfaces would exceed the database's limits, or fill the statement caches with statements of
// every length.
const maxRows = 32

// marks returns n placeholders.
func marks(n int) string { return repeat("?", n) }

// repeat returns n copies of part with commas between them.
func repeat(part string, n int) string {
	return strings.TrimSuffix(strings.Repeat(part+", ", n), ", ")
}
