package store

import "context"

// FoldLog puts what is only in the log of a database file into the file.
func FoldLog(ctx context.Context, path string) error {
	return changeFile(ctx, path, "PRAGMA journal_mode = DELETE")
}
