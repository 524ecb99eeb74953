package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	modernc "modernc.org/sqlite"
)

// migrateSQLite migrates the schema in one transaction: all migrations, or none. Another connection
// must have the log open meanwhile, because the last one to close the log moves all of it into the
// database file and removes it.
func migrateSQLite(ctx context.Context, uri string) (err error) {
	query := url.Values{}
	for _, setting := range slices.Concat(commonSettings, []string{"PRAGMA synchronous=FULL"}) {
		query.Add("_pragma", strings.TrimPrefix(setting, "PRAGMA "))
	}
	db, err := sql.Open("sqlite", uri+"?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	commit, err := beginMigrations(ctx, db)
	if err != nil {
		return fmt.Errorf("begin to migrate the schema: %w", err)
	}
	if err := migrate(ctx, db, database.DialectSQLite3, goose.WithIsolateDDL(true)); err != nil {
		return err // closing takes back what was done
	}
	if err := commit(); err != nil {
		return fmt.Errorf("commit the migrations of the schema: %w", err)
	}
	return nil
}

// beginMigrations limits db to one connection and begins a transaction on it, in which goose runs
// its statements as they are. The connection refuses every commit but that of the returned
// function. After an error of the disk SQLite has rolled the transaction back by itself
// (https://sqlite.org/lang_transaction.html, section 3), and goose, which tries some errors again,
// would commit each of its statements alone.
func beginMigrations(ctx context.Context, db *sql.DB) (commit func() error, err error) {
	const allow, refuse = 0, 1 // results of a hook
	result := int32(refuse)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }() // gives it back to db
	if err := conn.Raw(func(driver any) error {
		hooks, ok := driver.(modernc.HookRegisterer)
		if !ok {
			return fmt.Errorf("%T has no hook for commits", driver)
		}
		hooks.RegisterCommitHook(func() int32 { return result })
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return func() error {
		result = allow
		_, err := db.ExecContext(ctx, "COMMIT")
		return err
	}, nil
}
