package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Tx is a transaction. It is valid only inside the function it was given to.
// Its methods return domain errors of package node where one fits and wrapped
// database errors otherwise.
type Tx struct {
	now   time.Time
	stmt  func(query string) (*sql.Stmt, error)
	touch func() error // called before the first change; nil in a read
}

// Now is the time of the transaction by the database's clock.
func (tx *Tx) Now() time.Time { return tx.now }

func (tx *Tx) exec(query string, args ...any) (sql.Result, error) {
	if err := tx.touch(); err != nil {
		return nil, err
	}
	stmt, err := tx.stmt(query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return nil, fmt.Errorf("write to the database: %w", err)
	}
	return result, nil
}

// insert runs an INSERT and returns the key it was given.
func (tx *Tx) insert(query string, args ...any) (int64, error) {
	result, err := tx.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// query calls scan for each row.
func (tx *Tx) query(scan func(*sql.Rows) error, query string, args ...any) error {
	stmt, err := tx.stmt(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read from the database: %w", err)
	}
	return nil
}

// one scans the only row and reports whether there was one.
func (tx *Tx) one(query string, args []any, into ...any) (bool, error) {
	stmt, err := tx.stmt(query)
	if err != nil {
		return false, err
	}
	switch err := stmt.QueryRowContext(context.Background(), args...).Scan(into...); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read from the database: %w", err)
	}
	return true, nil
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
