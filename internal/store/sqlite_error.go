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

// Code is the result code, as the driver of database/sql has it in its errors.
func (e *sqliteError) Code() int { return e.code }

// sqliteCode returns the primary result code of a failure that SQLite reports, to
// us or to the driver of database/sql.
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

// sqliteOutages are the result codes that say nothing about the statement but
// about the file it works on (https://sqlite.org/rescode.html).
var sqliteOutages = map[int]string{
	sqlite3.SQLITE_FULL:     diskFull,
	sqlite3.SQLITE_READONLY: readOnly,
	sqlite3.SQLITE_IOERR:    diskFails,
	sqlite3.SQLITE_CANTOPEN: diskFails,
	sqlite3.SQLITE_BUSY:     occupied, // somebody else has opened the file
}

// outage makes an error of the files a node.ErrUnavailable and leaves others as
// they are.
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

// probe writes to a folder to find out why its disk refuses writes, of which
// SQLite keeps the reason for itself. It returns "" for reasons of its own.
func probe(dir string) (reason string) {
	file, err := os.CreateTemp(dir, "probe-")
	if err == nil {
		_, err = file.Write([]byte{0})
		_, _ = file.Close(), os.Remove(file.Name()) // it may be tried again
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return readOnly
	}
	return ""
}
