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

// Backup writes a copy of the SQLite database in dir to file and returns what the copy holds. It
// needs no lock, so an engine may run on dir meanwhile. The copy has every write that was answered
// before the call of Backup, and of each later write all or nothing. The copy carries a mark by
// which an engine knows that it is a copy, see Tx.CountUse. Backup checks the copy before it gives
// it its name. The copy has mode 0600 and is on disk when Backup returns.
//
// An existing file is an error unless overwrite is set. After an error, or when ctx ends, file is
// what it was before.
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
	// The temporary file is in the folder of the backup, so that one rename gives it its name. A
	// temporary file has mode 0600.
	partial, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-")
	if err != nil {
		return Contents{}, fmt.Errorf("create backup %s: %w", file, cause(err))
	}
	defer discard(partial.Name()) // the file has its name by then, or is of no use
	defer partial.Close()
	taken := time.Now()
	if err := copyDatabase(ctx, source, partial.Name()); err != nil {
		return Contents{}, fmt.Errorf("copy database %s to %s: %w", source, file, err)
	}
	contents, err := examine(ctx, partial.Name())
	if err != nil {
		return Contents{}, fmt.Errorf("check the copy of database %s: %w", source, err)
	}
	if !contents.marked { // a copy that is marked already keeps its mark, which says how old it is
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

// checkTarget refuses to write a backup over a file that must not be lost.
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

// inside reports whether file is one of the files that the engine keeps in dir.
func inside(dir, file string) bool {
	for _, suffix := range append(sidecars, "", restoringSuffix) {
		if samePlace(filepath.Join(dir, databaseFile+suffix), file) {
			return true
		}
	}
	return samePlace(filepath.Join(dir, lockFile), file)
}

// samePlace reports whether two paths name the same file. The file need not exist.
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

// copyDatabase writes a compact copy of one state of a database into an empty file. A reader of the
// write-ahead log delays no writer. It only keeps the log from shrinking until the copy is
// complete.
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

// fileSource returns the data source name of a database file for use without an engine: none of the
// engine's own settings apply.
func fileSource(path string, options string) string {
	return (&url.URL{
		Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: options + "&_pragma=busy_timeout(5000)&_pragma=trusted_schema(0)",
	}).String()
}

// cause returns why a call failed, without the names of temporary files, which mean nothing to
// people.
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

// syncDir flushes a folder, so that the names of its files are on disk.
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
