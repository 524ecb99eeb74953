package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

// storm writes nodes from several goroutines until the returned function is
// called. It reports each name once its write was answered.
func storm(t *testing.T, s *store.Store) (answered func() []string, end func()) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	var stop atomic.Bool
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			for j := 0; !stop.Load(); j++ {
				name := fmt.Sprintf("storm-%d-%d", i, j)
				if err := s.Write(context.Background(), small(name)); err != nil {
					t.Errorf("write %s: %v", name, err)
					return
				}
				mu.Lock()
				names = append(names, name)
				mu.Unlock()
			}
		})
	}
	answered = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(names)
	}
	return answered, func() { stop.Store(true); running.Wait() }
}

func TestBackupDuringAStormOfWritesHasEveryWriteAnsweredBefore(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	file := filepath.Join(other, "backup.db")
	s := open(t, dir, nil)
	answered, end := storm(t, s)
	defer end()
	for range 2 {
		before := answered()
		for seen := len(before); len(before) < seen+50; {
			before = answered() // the storm goes on while the copy is taken
		}
		contents, err := store.Backup(t.Context(), dir, file, true)
		if err != nil {
			t.Fatal(err)
		}
		restored := t.TempDir()
		done, err := store.Restore(t.Context(), file, restored, restoredAt)
		if err != nil {
			t.Fatal(err)
		}
		if done.Nodes != contents.Nodes || done.Kept != "" {
			t.Errorf("restored %+v of %+v", done, contents)
		}
		got := nodeNames(t, open(t, restored, nil))
		if len(got) != contents.Nodes {
			t.Errorf("the backup has %d nodes, %d were reported", len(got), contents.Nodes)
		}
		present := map[string]bool{}
		for _, name := range got {
			present[name] = true
		}
		for _, name := range before {
			if !present[name] {
				t.Errorf("the backup lacks %s, whose write was answered before", name)
			}
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("backup: %v, %v, want mode 0600", info.Mode(), err)
	}
	onlyFiles(t, other, "backup.db")
}

func TestBackupRefusesWhatWouldLoseSomething(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	createNode(t, open(t, dir, nil), "a")
	earlier := filepath.Join(other, "earlier")
	if err := os.WriteFile(earlier, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dir, file string
		overwrite bool
		want      string
	}{
		"an existing file":        {dir, earlier, false, "exists: use --force"},
		"the database itself":     {dir, filepath.Join(dir, "ingot.db"), true, "choose another name"},
		"its log":                 {dir, filepath.Join(dir, "ingot.db-wal"), true, "choose another name"},
		"the lock":                {dir, filepath.Join(dir, "ingot.lock"), true, "choose another name"},
		"a folder":                {dir, other, true, "this is a folder"},
		"a folder that is absent": {dir, filepath.Join(other, "no", "file"), false, "no such file"},
		"an empty data folder":    {other, filepath.Join(other, "new"), false, "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Backup(t.Context(), test.dir, test.file, test.overwrite)
			wantError(t, err, test.want)
		})
	}
	if got, err := os.ReadFile(earlier); err != nil || string(got) != "precious" {
		t.Errorf("the earlier file is %q, %v", got, err)
	}
	onlyFiles(t, other, "earlier")
	if _, err := store.Backup(t.Context(), dir, earlier, true); err != nil {
		t.Errorf("replace with force: %v", err)
	}
}

func TestInterruptedBackupLeavesNothing(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	createNode(t, open(t, dir, nil), "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Backup(ctx, dir, filepath.Join(other, "b"), false); err == nil {
		t.Error("an interrupted backup succeeded")
	}
	onlyFiles(t, other)
}

func TestBackupOfADamagedDatabaseSaysSoAndLeavesNothing(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	content, err := os.ReadFile(backupOf(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ingot.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	damage(t, path)
	_, err = store.Backup(t.Context(), dir, filepath.Join(other, "b"), false)
	wantError(t, err, "damaged")
	onlyFiles(t, other)
}

// TestBackupOnAFullDiskLeavesNothing has the kernel refuse to let files grow, in
// a process of its own because that holds for all its files.
func TestBackupOnAFullDiskLeavesNothing(t *testing.T) {
	storetest.InOwnProcess(t, func() {
		dir, other := t.TempDir(), t.TempDir()
		s := open(t, dir, nil)
		for i := range 10 {
			if err := s.Write(t.Context(), large(fmt.Sprint("n", i))); err != nil {
				t.Fatal(err)
			}
		}
		limitFiles(t, 1<<20)
		_, err := store.Backup(t.Context(), dir, filepath.Join(other, "b"), false)
		if err == nil || !strings.Contains(err.Error(), "disk") {
			t.Errorf("error = %v, want one about the disk", err)
		}
		onlyFiles(t, other)
	})
}

// damage writes over the inner pages of a database.
func damage(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[8192:], bytes.Repeat([]byte{0xa5}, len(content)-8192))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one line with %q", err, part)
	}
}

// files returns the names of a folder's files.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// onlyFiles checks what a folder has.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	if names := files(t, dir); !slices.Equal(names, want) {
		t.Errorf("%s has %q, want %q", dir, names, want)
	}
}

func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
}
