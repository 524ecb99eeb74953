package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// A database can be put back to an earlier state, and machines cannot. So engines count in the
// database from time to time that they use it, and keep the count outside of the database, too: for
// a data folder in its lock file, which is no part of the database, and for PostgreSQL in the
// memory of the process. A database with a lower count than that is an older one. A database that
// was counted, in a folder that keeps no count, may be one.
//
// Two kinds of copies give themselves away. The file of a backup has the time of the backup in its
// header, as SQLite's user_version; a running database never has one. On PostgreSQL the row of the
// count names the transaction that wrote it. Whatever fills the tables from a dump writes that
// row in a transaction of its own.

// Copied says that a database is a copy of an older state.
type Copied struct {
	How string // what gives it away, for people; goes on after "because", without a period
}

// useCounter keeps the count of a database outside of the database.
type useCounter interface {
	// load reports false when no count is kept.
	load() (count int64, kept bool)
	store(count int64)
}

// copyMargin is added to the count of a database that was found to be a copy. Other processes may
// keep a slightly higher count than the one that found it out. copyMargin takes the copy past all
// of them.
const copyMargin = 1_000_000

// CountUse counts that an engine uses the database. It returns what gives the database away as a
// copy of an older state, or nil. It reports a copy only once, so what follows from that has to be
// stored in the same commit.
func (tx *Tx) CountUse() (*Copied, error) {
	if err := tx.LockName("lineage"); err != nil {
		return nil, err
	}
	var count, intact int64
	query := "SELECT signatures, 1 FROM lineage WHERE id = 1"
	if tx.shared != nil {
		query = "SELECT signatures, CASE WHEN written_in = xmin::text THEN 1 ELSE 0 END FROM lineage WHERE id = 1"
	}
	found, err := tx.one(query, nil, &count, &intact)
	if err != nil {
		return nil, err
	}
	copied, err := tx.marked()
	if err != nil {
		return nil, err
	}
	known, kept := tx.counter.load()
	switch {
	case copied != nil:
	case found && intact == 0:
		copied = &Copied{How: "its tables were filled from a dump"}
	case count < known && (found || tx.hasNodes()):
		copied = &Copied{How: "an engine has seen it in a later state before"}
	case count > 0 && !kept:
		copied = &Copied{How: "it was used before, and " + lockFile + ", which remembers until when, is missing or empty"}
	}
	next := max(count, known) + 1
	if copied != nil {
		next += copyMargin
		if !kept {
			tx.counter.store(next) // if the commit fails, the database is an older one by its count
		}
		if err := tx.resetRegistrationTimes(); err != nil {
			return nil, err
		}
	} else {
		// The commit of this count may fail, but the previous count is on disk.
		tx.counter.store(count)
	}
	writtenIn := "NULL"
	if tx.shared != nil {
		writtenIn = "pg_current_xact_id()::xid::text"
	}
	return copied, tx.exec("INSERT INTO lineage (id, signatures, written_in) VALUES (1, ?, "+writtenIn+
		") ON CONFLICT (id) DO UPDATE SET signatures = excluded.signatures, written_in = excluded.written_in", next)
}

// resetRegistrationTimes has the conductors of a copy count as alive from now on. That they were
// silent since the copy was taken says nothing, and each gets its time to register again. A data
// folder has no conductor besides the one that uses it.
func (tx *Tx) resetRegistrationTimes() error {
	if tx.shared == nil {
		return nil
	}
	return tx.exec("UPDATE conductors SET updated_at = ?", tx.Now().UnixMicro())
}

// WasRestored reports whether the database was put back to an older state under a running engine.
// The next CountUse will report that as a copy. Until then the engine begins nothing that the
// database asks for, and Store.RestorationFound tells that CountUse is due. WasRestored is always
// false for a data folder, because it is locked while an engine runs.
func (tx *Tx) WasRestored() (bool, error) {
	if tx.shared == nil {
		return false, nil
	}
	// The first trip to the server, which now makes if it was not made yet, reads the count.
	if tx.shared.now(); tx.shared.session.cause != nil {
		return false, tx.shared.session.cause
	}
	known, _ := tx.counter.load()
	restored := tx.shared.useCount < known
	if restored {
		select {
		case tx.shared.writer.restored <- struct{}{}:
		default: // the engine knows already
		}
	}
	return restored, nil
}

// hasNodes reports whether there is a node: a new database has none.
func (tx *Tx) hasNodes() bool {
	found, err := tx.one("SELECT 1 FROM nodes LIMIT 1", nil, new(any))
	return found && err == nil
}

// MarkRestored suspends the work in a database, as engines do when they find that it is a copy of
// an older state. It returns on how many nodes. It is for copies that engines cannot recognize as
// such. Engines may be using the database meanwhile on PostgreSQL, but not on SQLite.
func MarkRestored(ctx context.Context, opts Options) (nodes int, err error) {
	if opts.URL == "" { // opening it would create one
		path := filepath.Join(opts.Dir, databaseFile)
		if err := checkHeader(path); err != nil {
			return 0, fmt.Errorf("mark database %s: %w", path, cause(err))
		}
	}
	s, err := Open(ctx, opts)
	if err != nil {
		return 0, err
	}
	err = s.Write(ctx, func(tx *Tx) error {
		if _, err := tx.CountUse(); err != nil { // CountUse reports a copy only once, which is here
			return err
		}
		if _, _, err := tx.Suspend(node.Restored, "ingot engine mark-restored has said so"); err != nil {
			return err
		}
		nodes, _, err = tx.CountSuspended()
		return err
	})
	return nodes, errors.Join(err, s.Close())
}

// marked removes the mark of a backup and returns what it says, or nil if there is no mark.
func (tx *Tx) marked() (*Copied, error) {
	if tx.lateCommit != 0 { // on PostgreSQL
		return nil, nil
	}
	var mark int64
	if _, err := tx.one("PRAGMA user_version", nil, &mark); err != nil || mark == 0 {
		return nil, err
	}
	return &Copied{How: "it is a backup that was taken at " + timeOfMark(mark).Format(time.RFC3339)}, tx.exec("PRAGMA user_version = 0")
}

// markStatement returns the statement that marks a database file as a copy of the state at a time.
// The header has 32 bits for the time: seconds since 1970 without a sign, until the year 2106.
func markStatement(at time.Time) string {
	return fmt.Sprintf("PRAGMA user_version = %d", int32(uint32(at.Unix())))
}

func timeOfMark(mark int64) time.Time { return time.Unix(int64(uint32(mark)), 0).UTC() }

// folderCounter is the lock file of a data folder.
type folderCounter struct{ file *os.File }

// counterSize is the length of a number in a lock file: always the same, so that it is
// written in place and a crash leaves the old one or the new one.
const counterSize = 20

func (c folderCounter) load() (count int64, kept bool) {
	text := make([]byte, counterSize)
	if _, err := c.file.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	count, err := strconv.ParseInt(strings.Trim(string(text), " \n\x00"), 10, 64)
	return count, err == nil
}

// store ignores a number that cannot be written. An older copy is then recognized by an older
// number. The first number waits for the disk: after a loss of power the file would be empty, as
// beside a database of another folder.
func (c folderCounter) store(count int64) {
	_, kept := c.load()
	_, _ = c.file.WriteAt(fmt.Appendf(nil, "%*d\n", counterSize-1, count), 0)
	if !kept {
		_ = c.file.Sync()
	}
}

// processCounter lasts as long as the process.
type processCounter struct{ count atomic.Int64 }

func (c *processCounter) load() (count int64, kept bool) { return c.count.Load(), true }
func (c *processCounter) store(count int64)              { c.count.Store(count) }
