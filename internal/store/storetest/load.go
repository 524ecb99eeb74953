package storetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ingot-metal/ingot/internal/store"
)

// Load inserts rows into the tables of a database that store.Open has made and
// that has no such rows yet. Nobody may work on it meanwhile; it may be open.
//
// A row has the values of its columns as they are stored: text, whole numbers (any
// of Go's, or of package json's) and null. A column that it leaves out gets its
// default. Keys that the database gives afterwards are above those of the rows.
// Foreign keys are checked when all rows are there. A row that does not fit ends
// the test.
func Load(t testing.TB, options store.Options, tables map[string][]map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := openBelow(t, options)
	defer db.Close() //nolint:errcheck // what was written is committed by then
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatalf("load rows: %v", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	l := loader{t: t, ctx: ctx, tx: tx, postgres: options.URL != ""}
	l.begin()
	for _, table := range l.inOrder(tables) {
		for _, row := range tables[table] {
			l.insert(table, row)
		}
		l.passKeys(table)
	}
	if err := tx.Commit(); err != nil {
		t.Fatalf("load rows: %v", err)
	}
}

// openBelow opens a database beside its store.
func openBelow(t testing.TB, options store.Options) *sql.DB {
	t.Helper()
	driver, source := "pgx", options.URL
	if options.URL == "" {
		path := (&url.URL{Path: filepath.Join(options.Dir, "ingot.db")}).EscapedPath()
		driver, source = "sqlite", "file:"+path+"?mode=rw&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)"
	} else {
		_ = stdlib.GetDefaultDriver() // registers pgx
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatalf("open the database below its store: %v", err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// loader inserts rows in one transaction.
type loader struct {
	t        testing.TB
	ctx      context.Context //nolint:containedctx // of one call of Load
	tx       *sql.Tx
	postgres bool
}

func (l *loader) exec(statement string, args ...any) {
	l.t.Helper()
	if _, err := l.tx.ExecContext(l.ctx, statement, args...); err != nil {
		l.t.Fatalf("%s: %v", statement, err)
	}
}

// begin puts the check of foreign keys off where that can be done; PostgreSQL
// checks at once, which the order of the tables suits.
func (l *loader) begin() {
	l.t.Helper()
	if !l.postgres {
		l.exec("PRAGMA defer_foreign_keys = 1")
	}
}

// parents are the tables that others refer to, before those.
var parents = []string{"nodes", "documents"}

// inOrder returns the names of tables, those first that others refer to.
func (l *loader) inOrder(tables map[string][]map[string]any) []string {
	rank := func(table string) int {
		if i := slices.Index(parents, table); i >= 0 {
			return i
		}
		return len(parents)
	}
	names := slices.Sorted(maps.Keys(tables))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func (l *loader) insert(table string, row map[string]any) {
	l.t.Helper()
	columns := slices.Sorted(maps.Keys(row))
	names, marks, args := make([]string, len(columns)), make([]string, len(columns)), make([]any, len(columns))
	for i, column := range columns {
		names[i], marks[i] = quote(column), fmt.Sprintf("$%d", i+1)
		args[i] = l.stored(row[column])
	}
	l.exec(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", quote(table), strings.Join(names, ", "), strings.Join(marks, ", ")), args...)
}

// stored returns a value as the database takes it: package json reads numbers as
// floats.
func (l *loader) stored(value any) any {
	l.t.Helper()
	switch v := value.(type) {
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
		l.t.Fatalf("load rows: %v is no whole number", v)
	case json.Number:
		whole, err := v.Int64()
		if err != nil {
			l.t.Fatalf("load rows: %v", err)
		}
		return whole
	}
	return value
}

// passKeys makes PostgreSQL go on behind the keys of a table's rows, as SQLite does
// by itself.
func (l *loader) passKeys(table string) {
	l.t.Helper()
	if !l.postgres {
		return
	}
	var key string
	err := l.tx.QueryRowContext(l.ctx, "SELECT column_name FROM information_schema.columns"+
		" WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'", table).Scan(&key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return
	case err != nil:
		l.t.Fatalf("find the key of table %s: %v", table, err)
	}
	sequence := fmt.Sprintf("pg_get_serial_sequence('%s', '%s')", quote(table), key)
	l.exec(fmt.Sprintf("SELECT setval(%s, greatest(nextval(%s), (SELECT max(%s) FROM %s)))", sequence, sequence, quote(key), quote(table)))
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
