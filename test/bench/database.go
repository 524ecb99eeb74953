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

// databaseArgs returns the flags that make an engine use the database of this name: a data folder
// below that of the bench, or a schema of the PostgreSQL server.
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

// How engines reach the PostgreSQL server: as one on the same computer, or as one behind a network.
func bySocket(s *storetest.Server) string { return s.Socket }
func byTCP(s *storetest.Server) string    { return s.URL }

// onPostgres returns a section that runs on a PostgreSQL server, which is started for this section
// only.
func onPostgres(by func(*storetest.Server) string, run func(context.Context, *bench) error) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		bin := storetest.PostgresBin()
		if bin == "" {
			fmt.Println("SKIPPED: a section on PostgreSQL. Install Debian's package postgresql to get its figures.")
			return nil
		}
		server, err := storetest.StartServer(bin)
		if err != nil {
			return fmt.Errorf("start PostgreSQL: %w", err)
		}
		on := *b
		on.postgres = by(server)
		err = run(ctx, &on)
		b.figures = on.figures
		return errors.Join(err, server.Stop())
	}
}
