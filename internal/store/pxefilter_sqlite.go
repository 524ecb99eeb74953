package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// sqliteViewer reads a database file on one connection, the only one whose
// data_version can be compared.
type sqliteViewer struct {
	path string
	file os.FileInfo // of the database when it was opened
	db   *sql.DB
	conn *sql.Conn
}

func viewSQLite(ctx context.Context, dir string) (*BootView, error) {
	path := filepath.Join(dir, databaseFile)
	v := &sqliteViewer{path: path}
	if err := v.open(ctx); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, plain(err))
	}
	return &BootView{db: v, name: path}, nil
}

// open opens the file read-only: such a connection does not even put the log into
// the database when it is the last one to close, which stays the engine's.
func (v *sqliteViewer) open(ctx context.Context) (err error) {
	if err := checkHeader(v.path); errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is none: start the engine, or name its data folder with --data")
	} else if err != nil {
		return cause(err)
	}
	if v.file, err = os.Stat(v.path); err != nil {
		return cause(err)
	}
	if v.db, err = sql.Open("sqlite", fileSource(v.path, "mode=ro")); err != nil {
		return err
	}
	if v.conn, err = v.db.Conn(ctx); err != nil {
		return errors.Join(err, v.db.Close())
	}
	return nil
}

// token is SQLite's own count of the commits of others. An engine that was
// restored from a backup has another file.
func (v *sqliteViewer) token(ctx context.Context) (string, error) {
	file, err := os.Stat(v.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("the file is gone")
	case err != nil:
		return "", cause(err)
	case !os.SameFile(file, v.file):
		return "", errors.New("another file has taken its place")
	}
	var version int64
	if err := v.conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		return "", plain(err)
	}
	return strconv.FormatInt(version, 10), nil
}

func (v *sqliteViewer) read(ctx context.Context, fn func(*Tx) error) error {
	tx, err := v.conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // a read leaves nothing behind
	return fn(&Tx{now: time.Now(), db: sqliteSession{func(query string) (*sql.Stmt, error) {
		return tx.PrepareContext(ctx, query) // the transaction's end closes it
	}}})
}

func (v *sqliteViewer) close(context.Context) error {
	return errors.Join(v.conn.Close(), v.db.Close())
}
