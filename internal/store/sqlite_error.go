package store

import (
	"errors"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// sqliteOutages are the result codes that say nothing about the statement but
// about the file it works on (https://sqlite.org/rescode.html).
var sqliteOutages = map[int]string{
	lib.SQLITE_FULL:     diskFull,
	lib.SQLITE_READONLY: readOnly,
	lib.SQLITE_IOERR:    diskFails,
	lib.SQLITE_CANTOPEN: diskFails,
	lib.SQLITE_BUSY:     occupied, // somebody else has opened the file
}

// sqliteOutage makes an error of the files a node.ErrUnavailable and leaves others
// as they are.
func sqliteOutage(err error) error {
	var refused *driver.Error
	if !errors.As(err, &refused) {
		return err
	}
	const primary = 0xff // the low byte of an extended code
	if reason, ok := sqliteOutages[refused.Code()&primary]; ok {
		return unavailable(reason, err)
	}
	return err
}
