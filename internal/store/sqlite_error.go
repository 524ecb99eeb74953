package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteError is a failure that SQLite reports.
type sqliteError struct {
	code int // extended result code (https://sqlite.org/rescode.html)
	text string
}

func (e *sqliteError) Error() string { return fmt.Sprintf("%s (%d)", e.text, e.code) }

// Code returns the result code, like the errors of the database/sql driver.
func (e *sqliteError) Code() int { return e.code }

// sqliteCode returns the primary result code of a failure that SQLite reports, either to this
// package or to the driver of database/sql.
func sqliteCode(err error) (code int, ok bool) {
	var refused interface {
		error
		Code() int
	}
	if !errors.As(err, &refused) {
		return 0, false
	}
	const primary = 0xff // the low byte of an extended code
	return refused.Code() & primary, true
}

// sqliteOutages are the result codes that say something about the file and not about the statement
// (https://sqlite.org/rescode.html).
var sqliteOutages = map[int]string{
	sqlite3.SQLITE_FULL:     diskFull,
	sqlite3.SQLITE_READONLY: readOnly,
	sqlite3.SQLITE_IOERR:    diskFails,
	sqlite3.SQLITE_CANTOPEN: diskFails,
	sqlite3.SQLITE_BUSY:     occupied, // another program has opened the file
}

// outage turns an error about the files into a node.ErrUnavailable, and returns other errors
// unchanged.
func (s *sqlite) outage(err error) error {
	code, ok := sqliteCode(err)
	if !ok {
		return err
	}
	reason, ok := sqliteOutages[code]
	if !ok {
		return err
	}
	if reason == diskFails {
		reason = cmp.Or(probe(s.dir), reason)
	}
	return unavailable(reason, err)
}

// probe writes to a folder to find out why its disk refuses writes, because SQLite does not report
// the reason. It returns "" when it does not know the reason.
func probe(dir string) (reason string) {
	file, err := os.CreateTemp(dir, "probe-")
	if err == nil {
		_, err = file.Write([]byte{0})
		_, _ = file.Close(), os.Remove(file.Name()) // both may fail
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return readOnly
	}
	return ""
}
