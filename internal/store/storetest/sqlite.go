package storetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
)

// databaseFile is the file of a database in its folder.
const databaseFile = "ingot.db"

// emptyDatabase is a database with the newest schema and no records. It is made once in a
// process, because with the race detector goose takes 0.1 s of processor time to read the migrations.
var emptyDatabase = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "ingot-schema-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, databaseFile))
})

// provideSchema puts an empty database into a folder that exists and has none.
func provideSchema(t testing.TB, dir string) {
	t.Helper()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return // the engine makes it, or is to fail
	}
	content, err := emptyDatabase()
	if err != nil {
		t.Fatalf("make an empty database: %v", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, databaseFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	if err != nil {
		t.Fatalf("put an empty database into the folder: %v", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatalf("put an empty database into the folder: %v", err)
	}
}
