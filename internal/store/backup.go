package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Backup writes a copy of the SQLite database in dir to file and returns what
// the copy holds. It needs no lock, so an engine may run on dir meanwhile: the
// copy has every write that was answered before Backup was called, and of each
// later one all or nothing. It carries a mark by which an engine knows that it is a
// copy, see Tx.Sign. It is checked before it gets its name, its mode is 0600 and it is
// on disk when Backup returns.
//
// An existing file is an error unless overwrite is set. After an error, or when
// ctx ends, file is what it was before.
func Backup(ctx context.Context, dir, file string, overwrite bool) (Contents, error) {
	source := filepath.Join(dir, databaseFile)
	if err := checkHeader(source); errors.Is(err, fs.ErrNotExist) {
		return Contents{}, fmt.Errorf("back up database %s: there is none: name the engine's data folder with --data", source)
	} else if err != nil {
		return Contents{}, fmt.Errorf("back up database %s: %w", source, err)
	}
	if err := checkTarget(dir, file, overwrite); err != nil {
		return Contents{}, err
	}
	// In the folder of the backup, so that giving it its name is one step. A
	// temporary file has mode 0600.
	partial, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-")
	if err != nil {
		return Contents{}, fmt.Errorf("create backup %s: %w", file, cause(err))
	}
	defer discard(partial.Name()) // it has its name by then, or is of no use
	defer partial.Close()
	taken := time.Now()
	if err := copyDatabase(ctx, source, partial.Name()); err != nil {
		return Contents{}, fmt.Errorf("copy database %s to %s: %w", source, file, err)
	}
	contents, err := examine(ctx, partial.Name())
	if err != nil {
		return Contents{}, fmt.Errorf("check the copy of database %s: %w", source, err)
	}
	if !contents.marked { // a copy of a copy says how old that is
		if err := changeFile(ctx, partial.Name(), markStatement(taken)); err != nil {
			return Contents{}, fmt.Errorf("mark the copy of database %s: %w", source, err)
		}
	}
	if err := partial.Sync(); err != nil {
		return Contents{}, fmt.Errorf("write backup to disk: %w", err)
	}
	if err := checkTarget(dir, file, overwrite); err != nil {
		return Contents{}, err
	}
	if err := os.Rename(partial.Name(), file); err != nil {
		return Contents{}, fmt.Errorf("name backup %s: %w", file, cause(err))
	}
	return contents, syncDir(filepath.Dir(file))
}

// checkTarget refuses to write a backup over what must not be lost.
func checkTarget(dir, file string, overwrite bool) error {
	if inside(dir, file) {
		return fmt.Errorf("write backup %s: this is a file of the engine: choose another name", file)
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for an earlier backup: %w", err)
	case info.IsDir():
		return fmt.Errorf("write backup %s: this is a folder: name a file", file)
	case !overwrite:
		return fmt.Errorf("write backup %s: the file exists: use --force to replace it, or choose another name", file)
	}
	return nil
}

// inside reports whether file is one of those that the engine keeps in dir.
func inside(dir, file string) bool {
	for _, suffix := range append(sidecars, "", restoringSuffix) {
		if samePlace(filepath.Join(dir, databaseFile+suffix), file) {
			return true
		}
	}
	return samePlace(filepath.Join(dir, lockFile), file)
}

// samePlace reports whether two paths name one file, which need not exist.
func samePlace(a, b string) bool {
	if filepath.Base(a) == filepath.Base(b) {
		a, b = filepath.Dir(a), filepath.Dir(b)
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// copyDatabase writes a compact copy of one state of a database into an empty
// file. A reader of the write-ahead log keeps no writer waiting; only the log
// cannot shrink before the copy is complete.
func copyDatabase(ctx context.Context, source, target string) (err error) {
	db, err := sql.Open("sqlite", fileSource(source, "mode=ro"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", target)
	return plain(err)
}

// fileSource names a database file as it is: nothing about how the engine works
// on its own is set.
func fileSource(path string, options string) string {
	return (&url.URL{
		Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: options + "&_pragma=busy_timeout(5000)&_pragma=trusted_schema(0)",
	}).String()
}

// cause is why a call failed, without names that only we have chosen.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// syncDir puts the names of a folder on disk.
func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write folder to disk: %w", err)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("write folder %s to disk: %w", dir, err)
	}
	return nil
}
