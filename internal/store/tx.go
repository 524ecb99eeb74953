package store

import (
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/internal/node"
)

// Tx is a transaction. It is valid only inside the function it was given to.
// Its methods return domain errors of package node where one fits and wrapped
// database errors otherwise.
type Tx struct {
	now   time.Time
	db    session
	touch func() error // called before the first change; nil in a read
}

// session runs the statements of one transaction. They are written for SQLite,
// with "?" for each argument.
type session interface {
	exec(query string, args []any) (sql.Result, error)
	// insert runs an INSERT and returns the value of the column key.
	insert(key, query string, args []any) (int64, error)
	query(query string, args []any) (*sql.Rows, error)
	// failed sees every error of the three and of reading rows; what it returns
	// goes to the caller.
	failed(err error) error
}

// Now is the time of the transaction by the database's clock.
func (tx *Tx) Now() time.Time { return tx.now }

func (tx *Tx) exec(query string, args ...any) (sql.Result, error) {
	if err := tx.prepareChange(args); err != nil {
		return nil, err
	}
	result, err := tx.db.exec(query, args)
	if err != nil {
		return nil, fmt.Errorf("write to the database: %w", tx.db.failed(err))
	}
	return result, nil
}

// insert runs an INSERT and returns the id it was given.
func (tx *Tx) insert(query string, args ...any) (int64, error) {
	return tx.insertKey("id", query, args...)
}

// insertKey runs an INSERT into a table whose key is not called id.
func (tx *Tx) insertKey(key, query string, args ...any) (int64, error) {
	if err := tx.prepareChange(args); err != nil {
		return 0, err
	}
	id, err := tx.db.insert(key, query, args)
	if err != nil {
		return 0, fmt.Errorf("write to the database: %w", tx.db.failed(err))
	}
	return id, nil
}

func (tx *Tx) prepareChange(args []any) error {
	if err := checkText(args); err != nil {
		return err
	}
	return tx.touch()
}

// query calls scan for each row.
func (tx *Tx) query(scan func(*sql.Rows) error, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	rows, err := tx.db.query(query, args)
	if err != nil {
		return fmt.Errorf("read from the database: %w", tx.db.failed(err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read from the database: %w", tx.db.failed(err))
	}
	return nil
}

// one scans the first row and reports whether there was one.
func (tx *Tx) one(query string, args []any, into ...any) (bool, error) {
	found := false
	err := tx.query(func(rows *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("read from the database: %w", err)
		}
		return nil
	}, query, args...)
	return found, err
}

// checkText refuses text that not every database can keep.
func checkText(args []any) error {
	for _, arg := range args {
		if text, ok := arg.(string); ok && !storable(text) {
			return node.Invalid("Text must be valid UTF-8 and hold no NUL character.")
		}
	}
	return nil
}

// storable reports whether every database can keep the text: PostgreSQL takes
// neither NUL characters nor what is not UTF-8. In JSON documents both are
// spelled out, so they may hold what they like.
func storable(text string) bool {
	return strings.IndexByte(text, 0) < 0 && utf8.ValidString(text)
}

// micros is how times are stored; null for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// orNull stores an empty text as null.
func orNull[S ~string](text S) any {
	if text == "" {
		return nil
	}
	return string(text)
}
