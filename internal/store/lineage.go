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

// A database can be put back to an earlier state, and machines cannot. So engines sign the database
// from time to time, and remember the number of signatures outside of the database: for a data
// folder in its lock file, which is no part of the database, and for PostgreSQL in the memory of
// the process. A database with fewer signatures than that is an older one.
//
// Two kinds of copies give themselves away. The file of a backup has the time of the backup in its
// header, as SQLite's user_version; a running database never has one. On PostgreSQL the row of the
// signature names the transaction that wrote it. Whatever fills the tables from a dump writes that
// row in a transaction of its own.

// Copied says that a database is a copy of an older state.
type Copied struct {
	How string // what gives it away, for people; goes on after "because", without a period
}

// memory keeps, outside of a database, how often the database was signed.
type memory interface {
	// recall returns 0 when nothing is remembered.
	recall() int64
	remember(signatures int64)
}

// ahead is added to the signatures of a database that was found to be a copy. Other processes may
// remember a few signatures more than the one that found it out. ahead takes the copy past all of
// them.
const ahead = 1_000_000

// Sign notes that an engine uses the database. It returns what gives the database away as a copy of
// an older state, or nil. It reports a copy only once, so what follows from that has to be stored
// in the same commit.
func (tx *Tx) Sign() (*Copied, error) {
	if err := tx.LockBound("lineage"); err != nil {
		return nil, err
	}
	var signatures, intact int64
	query := "SELECT signatures, 1 FROM lineage WHERE id = 1"
	if tx.shared != nil {
		query = "SELECT signatures, CASE WHEN written_in = xmin::text THEN 1 ELSE 0 END FROM lineage WHERE id = 1"
	}
	found, err := tx.one(query, nil, &signatures, &intact)
	if err != nil {
		return nil, err
	}
	copied, err := tx.marked()
	if err != nil {
		return nil, err
	}
	known := tx.memory.recall()
	switch {
	case copied != nil:
	case found && intact == 0:
		copied = &Copied{How: "its tables were filled from a dump"}
	case signatures < known && (found || tx.hasNodes()):
		copied = &Copied{How: "an engine has seen it in a later state before"}
	}
	next := max(signatures, known) + 1
	if copied != nil {
		next += ahead
		if err := tx.reviveConductors(); err != nil {
			return nil, err
		}
	} else {
		// The commit of this signature may fail, but the previous signature is on disk.
		tx.memory.remember(signatures)
	}
	writtenIn := "NULL"
	if tx.shared != nil {
		writtenIn = "pg_current_xact_id()::xid::text"
	}
	return copied, tx.exec("INSERT INTO lineage (id, signatures, written_in) VALUES (1, ?, "+writtenIn+
		") ON CONFLICT (id) DO UPDATE SET signatures = excluded.signatures, written_in = excluded.written_in", next)
}

// reviveConductors has the conductors of a copy count as alive from now on. That they were silent
// since the copy was taken says nothing, and each gets its time to register again. A data folder
// has no conductor besides the one that uses it.
func (tx *Tx) reviveConductors() error {
	if tx.shared == nil {
		return nil
	}
	return tx.exec("UPDATE conductors SET updated_at = ?", tx.Now().UnixMicro())
}

// Older reports whether the database was put back to an older state under a running engine. The
// next signature will report that as a copy. Until then the engine begins nothing that the database
// asks for, and Store.Older tells that a signature is due. Older is always false for a data folder,
// because it is locked while an engine runs.
func (tx *Tx) Older() (bool, error) {
	if tx.shared == nil {
		return false, nil
	}
	// The first trip to the server, which now makes if it was not made yet, reads the signatures.
	if tx.shared.now(); tx.shared.session.cause != nil {
		return false, tx.shared.session.cause
	}
	older := tx.shared.signatures < tx.memory.recall()
	if older {
		select {
		case tx.shared.writer.older <- struct{}{}:
		default: // the engine knows already
		}
	}
	return older, nil
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
		if _, err := tx.Sign(); err != nil { // Sign reports a copy only once, which is here
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
	if tx.shared != nil {
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

// folderMemory is the lock file of a data folder.
type folderMemory struct{ file *os.File }

// memorySize is the length of a number in a lock file: always the same, so that it is
// written in place and a crash leaves the old one or the new one.
const memorySize = 20

func (m folderMemory) recall() int64 {
	text := make([]byte, memorySize)
	if _, err := m.file.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	signatures, err := strconv.ParseInt(strings.Trim(string(text), " \n\x00"), 10, 64)
	if err != nil {
		return 0 // nothing is remembered yet
	}
	return signatures
}

// remember ignores a number that cannot be written. An older copy is then recognized by an older
// number.
func (m folderMemory) remember(signatures int64) {
	_, _ = m.file.WriteAt(fmt.Appendf(nil, "%*d\n", memorySize-1, signatures), 0)
}

// processMemory lasts as long as the process.
type processMemory struct{ signatures atomic.Int64 }

func (m *processMemory) recall() int64             { return m.signatures.Load() }
func (m *processMemory) remember(signatures int64) { m.signatures.Store(signatures) }
