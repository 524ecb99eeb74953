package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/internal/store"
)

// errBackedUpElsewhere says who takes copies of a PostgreSQL database.
var errBackedUpElsewhere = errors.New("the state is in PostgreSQL (database.url): back it up with pg_dump and restore it with pg_restore")

// Backup writes a copy of the embedded database to file, also while an engine
// runs on it, and returns what the copy holds. See store.Backup.
func Backup(ctx context.Context, cfg DatabaseConfig, file string, overwrite bool) (store.Contents, error) {
	if cfg.URL != "" {
		return store.Contents{}, fmt.Errorf("back up to %s: %w", file, errBackedUpElsewhere)
	}
	return store.Backup(ctx, cfg.Dir, file, overwrite)
}

// Restore puts a backup in the place of the embedded database, which no engine
// may use, and keeps the replaced one. See store.Restore.
func Restore(ctx context.Context, cfg DatabaseConfig, file string) (store.Restored, error) {
	if cfg.URL != "" {
		return store.Restored{}, fmt.Errorf("restore %s: %w", file, errBackedUpElsewhere)
	}
	return store.Restore(ctx, file, cfg.Dir, time.Now())
}

// MarkRestored suspends the work in a database that engines do not know as a copy of
// an older state, and returns on how many nodes. See store.MarkRestored.
func MarkRestored(ctx context.Context, cfg DatabaseConfig) (nodes int, err error) {
	return store.MarkRestored(ctx, store.Options{Dir: cfg.Dir, URL: cfg.URL})
}
