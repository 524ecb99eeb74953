package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// databaseArgs are the flags that put an engine on the database of this name: a
// data folder below the bench's, or a schema of the PostgreSQL server.
func (b *bench) databaseArgs(ctx context.Context, name string) ([]string, error) {
	folder := []string{"--data", filepath.Join(b.folder, name)}
	if b.postgres == "" {
		return folder, nil
	}
	schema := "bench_" + strings.ReplaceAll(name, "-", "_")
	if err := createSchema(ctx, b.postgres, schema); err != nil {
		return nil, fmt.Errorf("create schema %s: %w", schema, err)
	}
	server, err := url.Parse(b.postgres)
	if err != nil {
		return nil, fmt.Errorf("read URL of PostgreSQL: %w", err)
	}
	query := server.Query()
	query.Set("search_path", schema)
	server.RawQuery = query.Encode()
	return append(folder, "--database", server.String()), nil
}

func createSchema(ctx context.Context, server, schema string) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema)
	return err
}

// benchPostgres repeats sections on a PostgreSQL server that is started for them.
func benchPostgres(ctx context.Context, b *bench) error {
	bin := storetest.PostgresBin()
	if bin == "" {
		fmt.Println("SKIPPED: figures on PostgreSQL. Install Debian's package postgresql to get them.")
		return nil
	}
	server, err := storetest.StartServer(bin)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	on := *b
	on.postgres = server.URL
	for _, run := range []func(context.Context, *bench) error{benchRead, benchWrite, benchScale} {
		if err = run(ctx, &on); err != nil {
			break
		}
	}
	b.figures = on.figures
	return errors.Join(err, server.Stop())
}
