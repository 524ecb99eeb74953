package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Names of files beside the database.
const (
	lockFile        = "ingot.lock" // see lockDir
	restoringSuffix = ".restoring" // the copy of a restore, until it replaces the database
	replacedLayout  = ".replaced-20060102T150405Z"
)

// sidecars are the suffixes that SQLite appends to the name of a database for its other files.
var sidecars = []string{"-wal", "-shm", "-journal"}

// Restored is what a restore did.
type Restored struct {
	Contents
	// Kept is the present path of the replaced database; empty when there was none.
	Kept string
}

// Restore replaces the SQLite database in dir, which no engine may be using, by a backup. It first
// checks the backup, drops its leases, because their owners do not work on this database, and marks
// it as a copy if it is not marked yet. The engine that starts on it recognizes the copy by the
// mark, see Tx.CountUse.
//
// The change is a single rename. So after an error, the end of ctx or the death of the process, dir
// has either the old database or the new one. The old one stays beside it under a name with the
// time at.
func Restore(ctx context.Context, file, dir string, at time.Time) (done Restored, err error) {
	if err := checkBackup(dir, file); err != nil {
		return done, fmt.Errorf("restore backup %s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return done, fmt.Errorf("create data folder: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := giveToOwner(filepath.Join(dir, lockFile), dir); err != nil {
		return done, fmt.Errorf("lock data folder: %w", err)
	}
	current := filepath.Join(dir, databaseFile)
	incoming := current + restoringSuffix
	defer discard(incoming)
	discard(incoming) // left by a restore that was killed
	if err := dropSecondNames(current); err != nil {
		return done, err
	}
	if err := copyFile(ctx, file, incoming); err != nil {
		return done, fmt.Errorf("copy backup %s to %s: %w", file, dir, err)
	}
	done.Contents, err = prepare(ctx, incoming, at)
	if err == nil {
		err = giveToOwner(incoming, dir)
	}
	if err != nil {
		return done, fmt.Errorf("restore backup %s: %w", file, err)
	}
	if err := ctx.Err(); err != nil {
		return done, fmt.Errorf("restore backup %s: %w", file, err)
	}
	if done.Kept, err = keep(ctx, current, at); err != nil {
		return done, fmt.Errorf("keep the present database %s: %w", current, err)
	}
	if err := os.Rename(incoming, current); err != nil {
		return done, fmt.Errorf("put the backup in place: %w", err)
	}
	return done, syncDir(dir)
}

// checkBackup refuses files that cannot be a backup.
func checkBackup(dir, file string) error {
	if inside(dir, file) {
		return errors.New("this is a file of the data folder itself: name a backup")
	}
	if err := checkHeader(file); err != nil {
		return err
	}
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return errors.New("a log of changes (-wal) lies beside it, so it is part of a data folder and no backup: make one of that folder with ingot engine backup")
	}
	return nil
}

// prepare turns a copied backup into the new database: checked, marked, without leases, complete in
// one file, and on disk.
func prepare(ctx context.Context, path string, at time.Time) (contents Contents, err error) {
	// The journal mode comes first: otherwise reading the file would create a log, which would be
	// one more file to put in place.
	if err := changeFile(ctx, path, "PRAGMA journal_mode = DELETE"); err != nil {
		return contents, err
	}
	if contents, err = examine(ctx, path); err != nil {
		return contents, err
	}
	if err := changeFile(ctx, path, "DELETE FROM leases"); err != nil {
		return contents, fmt.Errorf("drop leases: %w", err)
	}
	if contents.marked {
		return contents, syncFile(path)
	}
	if contents.lastRegistered.IsZero() {
		contents.lastRegistered = at
	}
	if err := changeFile(ctx, path, markStatement(contents.lastRegistered)); err != nil {
		return contents, fmt.Errorf("mark it as a copy: %w", err)
	}
	return contents, syncFile(path)
}

// giveToOwner gives a file that root has created to the owner of its folder, the user that the
// engine runs as.
func giveToOwner(path, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid)) // the owner may have put a link there
}

// keep gives the present database a second name, under which it stays, and returns that name. It
// returns "" when there is no database.
func keep(ctx context.Context, current string, at time.Time) (string, error) {
	if _, err := os.Stat(current); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	kept := current + at.UTC().Format(replacedLayout)
	// Changes that are only in the log of an engine that was killed move into the file, and the log
	// is removed: it must not be taken for the log of the new database. If the file is not a
	// database, SQLite would remove its log, so SQLite does not open it.
	folded := checkHeader(current)
	if folded == nil {
		folded = emptyLog(ctx, current)
	}
	if errors.Is(folded, errInUse) {
		return "", folded
	}
	if folded == nil {
		folded = changeFile(ctx, current, "PRAGMA journal_mode = DELETE")
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err := os.Link(current, kept); err != nil {
		return "", err
	}
	if folded == nil {
		return kept, nil // one file, which the new one replaces
	}
	// Either another program has the database open, and the log is empty, or the database is
	// damaged or not a database at all. In each case the log is kept with it, unchanged.
	for _, suffix := range sidecars {
		err := os.Rename(current+suffix, kept+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return kept, nil
}

// dropSecondNames cleans up after a restore that was killed before it put the new database in
// place: it removes the name that the present database has as a replaced one.
func dropSecondNames(current string) error {
	present, err := os.Stat(current)
	if err != nil {
		return nil //nolint:nilerr // nothing has a second name; keep says what is wrong
	}
	names, err := filepath.Glob(current + ".replaced-*")
	if err != nil {
		return fmt.Errorf("look for replaced databases: %w", err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !os.SameFile(present, info) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("take back a name of the present database: %w", err)
		}
	}
	return nil
}

// errInUse says that another program has a database open.
var errInUse = errors.New("another program reads it, perhaps a backup or the PXE filter: wait for it, or end it")

// changeFile runs one statement on a database that nobody else uses, including the effects of
// foreign keys.
func changeFile(ctx context.Context, path, statement string) error {
	return onFile(path, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

// emptyLog moves the log of a database into the database file. Other programs, such as the PXE
// filter, may have the database open if they are not reading.
func emptyLog(ctx context.Context, path string) error {
	return onFile(path, func(db *sql.DB) error {
		var busy, pages, moved int
		err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
		if err == nil && busy != 0 {
			err = errInUse
		}
		return err
	})
}

// onFile opens a database that no engine uses. A failure because another program has it open is
// errInUse.
func onFile(path string, do func(*sql.DB) error) (err error) {
	db, err := sql.Open("sqlite", fileSource(path, "mode=rw&_pragma=foreign_keys(1)"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	err = do(db)
	if isBusy(err) {
		return errInUse
	}
	return plain(err)
}

// copyFile copies a file into a new one that only its owner can read.
func copyFile(ctx context.Context, from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, contextReader{ctx, source})
	return err
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // one copy long
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// discard removes a database file that is of no use, and all files that belong to it.
func discard(path string) {
	for _, suffix := range append(sidecars, "") {
		_ = os.Remove(path + suffix) // most do not exist
	}
}
