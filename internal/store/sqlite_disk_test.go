package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// large is a write that needs some hundred kilobytes.
func large(name string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		n := &node.Node{
			UUID: uuid.NewString(), Name: name, Driver: "fake-hardware", ProvisionState: node.Enroll,
			Extra: node.ObjectOf(map[string]any{"pad": strings.Repeat("x", 300<<10)}),
		}
		return tx.CreateNode(n)
	}
}

func small(name string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		return tx.CreateNode(&node.Node{UUID: uuid.NewString(), Name: name, Driver: "fake-hardware", ProvisionState: node.Enroll})
	}
}

// fillUp writes until a write fails and returns the names that were answered
// with success.
func fillUp(t *testing.T, s *store.Store) (stored []string) {
	t.Helper()
	for i := range 100 {
		name := fmt.Sprint("fill-", i)
		err := s.Write(t.Context(), large(name))
		if err != nil {
			if !strings.Contains(err.Error(), "database") {
				t.Errorf("error = %q, want one that says where it comes from", err)
			}
			return stored
		}
		stored = append(stored, name)
	}
	t.Fatal("the disk does not fill up")
	return nil
}

// TestFullDatabaseAnswersErrorsAndRecovers lets SQLite run out of pages, as it
// does on a full disk.
func TestFullDatabaseAnswersErrorsAndRecovers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	limitPages := func(pages int) {
		t.Helper()
		if err := s.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Texts(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	createNode(t, s, "before")
	limitPages(400)
	stored := append([]string{"before"}, fillUp(t, s)...)
	if got := nodeNames(t, s); !slices.Equal(got, stored) {
		t.Errorf("nodes = %v, want those that were answered, %v", got, stored)
	}

	// In one group, what does not fit must not take along what does.
	var mu sync.Mutex
	answered := map[string]error{}
	var running sync.WaitGroup
	for i := range 40 {
		running.Go(func() {
			name, write := fmt.Sprint("group-", i), small
			if i%4 == 0 {
				write = large
			}
			err := s.Write(context.Background(), write(name))
			mu.Lock()
			defer mu.Unlock()
			answered[name] = err
		})
	}
	running.Wait()
	present := nodeNames(t, s)
	for name, err := range answered {
		if slices.Contains(present, name) != (err == nil) {
			t.Errorf("%s was answered with %v, which is not true", name, err)
		}
	}

	limitPages(1 << 30)
	createNode(t, s, "after")
	want := append(present, "after")
	if got := nodeNames(t, s); !slices.Equal(got, want) {
		t.Errorf("nodes = %v, want %v", got, want)
	}
	closeStore(t, s)
	if got := nodeNames(t, open(t, dir, nil)); !slices.Equal(got, want) {
		t.Errorf("nodes after a restart = %v, want %v", got, want)
	}
}

// TestFailingDiskAnswersErrorsAndRecovers has the kernel refuse to let files
// grow, in a process of its own because that holds for all its files.
func TestFailingDiskAnswersErrorsAndRecovers(t *testing.T) {
	storetest.InOwnProcess(t, func() { failingDisk(t) })
}

func failingDisk(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, nil)
	createNode(t, s, "before")
	wal, err := os.Stat(filepath.Join(dir, "ingot.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	tight := syscall.Rlimit{Cur: uint64(wal.Size()) + 700<<10, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
		t.Fatal(err)
	}
	want := append([]string{"before"}, fillUp(t, s)...)
	if got := nodeNames(t, s); !slices.Equal(got, want) {
		t.Errorf("nodes = %v, want those that were answered, %v", got, want)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	createNode(t, s, "after")
	want = append(want, "after")
	if got := nodeNames(t, s); !slices.Equal(got, want) {
		t.Errorf("nodes = %v, want %v", got, want)
	}
	closeStore(t, s)
	if got := nodeNames(t, open(t, dir, nil)); !slices.Equal(got, want) {
		t.Errorf("nodes after a restart = %v, want %v", got, want)
	}
}
