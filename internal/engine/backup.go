package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// errBackedUpElsewhere refers to PostgreSQL's own tools, which back up and restore such a database.
var errBackedUpElsewhere = errors.New("the state is in PostgreSQL (database.url): back it up with pg_dump and restore it with pg_restore")

// Backup writes a copy of the embedded database to file and returns what the copy contains. An
// engine may be using the database meanwhile. See store.Backup.
func Backup(ctx context.Context, cfg DatabaseConfig, file string, overwrite bool) (store.Contents, error) {
	if cfg.URL != "" {
		return store.Contents{}, fmt.Errorf("back up to %s: %w", file, errBackedUpElsewhere)
	}
	return store.Backup(ctx, cfg.Dir, file, overwrite)
}

// Restore replaces the embedded database by a backup and keeps the replaced database. No engine may
// be using the database. See store.Restore.
func Restore(ctx context.Context, cfg DatabaseConfig, file string) (store.Restored, error) {
	if cfg.URL != "" {
		return store.Restored{}, fmt.Errorf("restore %s: %w", file, errBackedUpElsewhere)
	}
	return store.Restore(ctx, file, cfg.Dir, time.Now())
}

// MarkRestored suspends the work in a database that is a copy of an older state, if engines cannot
// find that out themselves. It returns the number of nodes whose work it suspended. See
// store.MarkRestored.
func MarkRestored(ctx context.Context, cfg DatabaseConfig) (nodes int, err error) {
	return store.MarkRestored(ctx, store.Options{Dir: cfg.Dir, URL: cfg.URL})
}
