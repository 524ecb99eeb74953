package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteConn is a connection to a SQLite database, with its prepared statements. It calls SQLite's
// C interface directly (https://sqlite.org/c3ref/intro.html): through database/sql, reading one row
// costs four times the CPU time that SQLite itself needs. Only one goroutine at a time may use it,
// and that goroutine may not begin a statement while it reads the rows of another.
type sqliteConn struct {
	tls    *libc.TLS
	db     uintptr // pointer to the C struct sqlite3
	result uintptr // eight bytes of memory where calls leave a pointer
	stmts  map[string]*sqliteStmt
	args   sqliteBuffer // memory for the texts bound to the running statement
}

// openSQLiteConn opens a connection to a database file, named by a URI
// (https://sqlite.org/uri.html), and runs the settings on it.
func openSQLiteConn(uri string, settings []string) (*sqliteConn, error) {
	c := &sqliteConn{tls: libc.NewTLS(), stmts: map[string]*sqliteStmt{}}
	err := c.open(uri)
	for _, setting := range settings {
		if err == nil {
			err = c.run(setting, nil, nil)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.closeStatements() // the settings run only once
	return c, nil
}

func (c *sqliteConn) open(uri string) error {
	if c.result = sqlite3.Xsqlite3_malloc(c.tls, pointerSize); c.result == 0 {
		return errNoMemory
	}
	name, err := libc.CString(uri)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_URI | sqlite3.SQLITE_OPEN_NOMUTEX
	c.clearResult()
	code := sqlite3.Xsqlite3_open_v2(c.tls, name, c.result, flags, 0)
	c.db = c.readResult() // also set after most failures
	if code != sqlite3.SQLITE_OK {
		return c.failure(code)
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	return c.keepPlans()
}

// keepPlans makes the plan of a statement independent of the bound values. Otherwise SQLite
// prepares a statement with "LIMIT ?" again for each different limit, which costs more than running
// it.
func (c *sqliteConn) keepPlans() error {
	args := libc.NewVaList(int32(1), uintptr(0))
	if args == 0 {
		return errNoMemory
	}
	defer libc.Xfree(c.tls, args)
	if code := sqlite3.Xsqlite3_db_config(c.tls, c.db, sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, args); code != sqlite3.SQLITE_OK {
		return c.failure(code)
	}
	return nil
}

// close closes the connection. Closing it again does nothing.
func (c *sqliteConn) close() error {
	if c.tls == nil {
		return nil
	}
	c.closeStatements()
	var err error
	if c.db != 0 {
		if code := sqlite3.Xsqlite3_close(c.tls, c.db); code != sqlite3.SQLITE_OK {
			err = fmt.Errorf("close database: %w", c.failure(code))
		}
	}
	sqlite3.Xsqlite3_free(c.tls, c.result)
	c.args.free(c.tls)
	c.tls.Close()
	c.tls, c.db = nil, 0
	return err
}

// run runs a statement and, if scan is not nil, calls scan for each row. An error of scan ends the
// run, and run returns it unchanged.
func (c *sqliteConn) run(query string, args []any, scan func(row) error) error {
	stmt, err := c.prepared(query)
	if err != nil {
		return fmt.Errorf("prepare %q: %w", query, err)
	}
	defer stmt.reset()
	if err := stmt.bind(args); err != nil {
		return err
	}
	for {
		more, err := stmt.step()
		if !more || err != nil {
			return err
		}
		if scan == nil {
			continue
		}
		if err := scan(stmt); err != nil {
			return err
		}
	}
}

// control runs a statement that begins or ends a transaction or a savepoint.
func (c *sqliteConn) control(statement string) error {
	if err := c.run(statement, nil, nil); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// inserted returns the key of the row that the last INSERT added, or false when it added none.
func (c *sqliteConn) inserted() (int64, bool) {
	if sqlite3.Xsqlite3_changes(c.tls, c.db) == 0 {
		return 0, false
	}
	return sqlite3.Xsqlite3_last_insert_rowid(c.tls, c.db), true
}

func (c *sqliteConn) prepared(query string) (*sqliteStmt, error) {
	if stmt, ok := c.stmts[query]; ok {
		return stmt, nil
	}
	text, err := libc.CString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	c.clearResult()
	if code := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.result, 0); code != sqlite3.SQLITE_OK {
		return nil, c.failure(code)
	}
	stmt := &sqliteStmt{conn: c, handle: c.readResult()}
	stmt.params = int(sqlite3.Xsqlite3_bind_parameter_count(c.tls, stmt.handle))
	c.stmts[query] = stmt
	return stmt, nil
}

// maxPrepared is how many statements a connection keeps for reuse. Clients choose filters, and with
// them the texts of statements.
const maxPrepared = 256

// trim closes all kept statements when there are too many.
func (c *sqliteConn) trim() {
	if len(c.stmts) >= maxPrepared {
		c.closeStatements()
	}
}

func (c *sqliteConn) closeStatements() {
	for _, stmt := range c.stmts {
		sqlite3.Xsqlite3_finalize(c.tls, stmt.handle) // returns the error of the last run again
	}
	clear(c.stmts)
}

const pointerSize = 8 // more than 32-bit processors need, but those put the low byte first

func (c *sqliteConn) clearResult() { clear(libc.GoBytes(c.result, pointerSize)) }

func (c *sqliteConn) readResult() uintptr {
	return uintptr(binary.NativeEndian.Uint64(libc.GoBytes(c.result, pointerSize)))
}

// failure returns SQLite's description of the failed call that has just returned code.
func (c *sqliteConn) failure(code int32) error {
	text := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, code))
	if c.db != 0 && sqlite3.Xsqlite3_extended_errcode(c.tls, c.db) == code {
		text = libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))
	}
	return &sqliteError{code: int(code), text: text}
}

var errNoMemory = &sqliteError{code: sqlite3.SQLITE_NOMEM, text: "out of memory"}

// sqliteBuffer is memory that SQLite can read.
type sqliteBuffer struct {
	start uintptr
	size  int
}

// keptBuffer is how much memory a connection keeps for the texts of the next statement. Inspection
// documents are larger.
const keptBuffer = 16 << 10

// reserve makes room for size bytes. It discards the previous content.
func (b *sqliteBuffer) reserve(tls *libc.TLS, size int) error {
	if size <= b.size && b.size <= max(size, keptBuffer) {
		return nil
	}
	b.free(tls)
	size = max(size, 1<<10)
	if b.start = sqlite3.Xsqlite3_malloc64(tls, uint64(size)); b.start == 0 {
		return errNoMemory
	}
	b.size = size
	return nil
}

func (b *sqliteBuffer) free(tls *libc.TLS) {
	sqlite3.Xsqlite3_free(tls, b.start)
	*b = sqliteBuffer{}
}
