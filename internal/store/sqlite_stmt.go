package store

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteStmt is a prepared statement. While it runs, it is also its current row.
type sqliteStmt struct {
	conn   *sqliteConn
	handle uintptr // pointer to the C struct sqlite3_stmt
	params int
}

// bind sets the value of each placeholder. The texts stay valid until the next bind on the
// connection, which happens only after this statement was reset.
func (s *sqliteStmt) bind(args []any) error {
	if len(args) != s.params {
		return fmt.Errorf("%d arguments for %d placeholders", len(args), s.params)
	}
	size := 0
	for _, arg := range args {
		size += textSize(arg)
	}
	c := s.conn
	if err := c.args.reserve(c.tls, size); err != nil {
		return err
	}
	start := c.args.start
	for i, arg := range args {
		code, err := s.bindOne(int32(i+1), arg, start)
		if err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
		if code != sqlite3.SQLITE_OK {
			return c.failure(code)
		}
		start += uintptr(textSize(arg))
	}
	return nil
}

// static says that SQLite must not free the bound memory.
const static = 0

// bindOne binds one value. It copies a text to start, where there is room for it.
func (s *sqliteStmt) bindOne(param int32, value any, start uintptr) (code int32, err error) {
	tls := s.conn.tls
	switch v := value.(type) {
	case nil:
		return sqlite3.Xsqlite3_bind_null(tls, s.handle, param), nil
	case int64:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, param, v), nil
	case int:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, param, int64(v)), nil
	case bool:
		return sqlite3.Xsqlite3_bind_int64(tls, s.handle, param, asBit(v)), nil
	case string:
		copy(libc.GoBytes(start, len(v)), v)
		return sqlite3.Xsqlite3_bind_text(tls, s.handle, param, start, int32(len(v)), static), nil
	case []byte:
		copy(libc.GoBytes(start, len(v)), v)
		return sqlite3.Xsqlite3_bind_blob(tls, s.handle, param, start, int32(len(v)), static), nil
	}
	return 0, fmt.Errorf("%T cannot be stored", value)
}

// step moves to the next row and reports whether there is one.
func (s *sqliteStmt) step() (bool, error) {
	switch code := sqlite3.Xsqlite3_step(s.conn.tls, s.handle); code {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		return false, nil
	default:
		return false, s.conn.failure(code)
	}
}

// reset ends the statement's run.
func (s *sqliteStmt) reset() {
	sqlite3.Xsqlite3_reset(s.conn.tls, s.handle) // returns the error of step again
}

// Scan reads the columns of the row.
func (s *sqliteStmt) Scan(into ...any) error {
	if columns := int(sqlite3.Xsqlite3_column_count(s.conn.tls, s.handle)); columns != len(into) {
		return fmt.Errorf("%d targets for %d columns", len(into), columns)
	}
	for i, target := range into {
		if err := s.scanOne(int32(i), target); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func (s *sqliteStmt) scanOne(column int32, target any) error {
	tls := s.conn.tls
	value := sqlite3.Xsqlite3_column_value(tls, s.handle, column)
	kind := sqlite3.Xsqlite3_value_type(tls, value)
	switch t := target.(type) {
	case *any:
		*t = s.value(kind, value)
		return nil
	case *sql.NullInt64:
		*t = sql.NullInt64{Int64: sqlite3.Xsqlite3_value_int64(tls, value), Valid: kind != sqlite3.SQLITE_NULL}
		return nil
	case *sql.NullString:
		*t = sql.NullString{String: s.text(value), Valid: kind != sqlite3.SQLITE_NULL}
		return nil
	}
	if kind == sqlite3.SQLITE_NULL {
		return fmt.Errorf("null cannot be read as %T", target)
	}
	switch t := target.(type) {
	case *int64:
		*t = sqlite3.Xsqlite3_value_int64(tls, value)
		return nil
	case *int:
		*t = int(sqlite3.Xsqlite3_value_int64(tls, value))
		return nil
	case *string:
		*t = s.text(value)
		return nil
	}
	// A type of text, such as a state.
	named := reflect.ValueOf(target)
	if named.Kind() != reflect.Pointer || named.Elem().Kind() != reflect.String {
		return fmt.Errorf("%T cannot be read", target)
	}
	named.Elem().SetString(s.text(value))
	return nil
}

// value converts a value of SQLite to its Go type.
func (s *sqliteStmt) value(kind int32, value uintptr) driver.Value {
	switch kind {
	case sqlite3.SQLITE_INTEGER:
		return sqlite3.Xsqlite3_value_int64(s.conn.tls, value)
	case sqlite3.SQLITE_FLOAT:
		return sqlite3.Xsqlite3_value_double(s.conn.tls, value)
	case sqlite3.SQLITE_NULL:
		return nil
	}
	return s.text(value)
}

func (s *sqliteStmt) text(value uintptr) string {
	start := sqlite3.Xsqlite3_value_text(s.conn.tls, value)
	return string(libc.GoBytes(start, int(sqlite3.Xsqlite3_value_bytes(s.conn.tls, value))))
}
