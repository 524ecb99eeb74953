package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// sqliteViewer reads a database file on one connection. It keeps that connection, because values of
// data_version can be compared only within one.
type sqliteViewer struct {
	path string
	file os.FileInfo // identity of the file when it was opened
	conn *sqliteConn
}

func viewSQLite(dir string) (*BootView, error) {
	path := filepath.Join(dir, databaseFile)
	v := &sqliteViewer{path: path}
	if err := v.open(); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, plain(err))
	}
	return &BootView{db: v, name: path}, nil
}

// open opens the file read-only. A read-only connection does not move the log into the database
// even if it is the last one to close, so the log stays the engine's.
func (v *sqliteViewer) open() (err error) {
	if err := checkHeader(v.path); errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is none: start the engine, or name its data folder with --data")
	} else if err != nil {
		return cause(err)
	}
	if v.file, err = os.Stat(v.path); err != nil {
		return cause(err)
	}
	v.conn, err = openSQLiteConn(fileURI(v.path)+"?mode=ro", []string{"PRAGMA busy_timeout=5000", "PRAGMA trusted_schema=0"})
	return err
}

// token returns SQLite's count of commits by other connections. It fails when another file has
// taken the place of the database, which happens when a backup is restored.
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
	if err := v.conn.run("PRAGMA data_version", nil, func(r row) error { return r.Scan(&version) }); err != nil {
		return "", plain(err)
	}
	return strconv.FormatInt(version, 10), nil
}

func (v *sqliteViewer) read(ctx context.Context, fn func(*Tx) error) error {
	return v.conn.read(ctx, time.Now(), fn)
}

func (v *sqliteViewer) close(context.Context) error { return v.conn.close() }
