package controlplane

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func decodePEM(t *testing.T, data []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("not PEM: %q", data)
	}
	return block.Bytes
}

func TestDataFolderHasOneUser(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	first, err := openDataDir(root)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDataDir(root)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), root) {
		t.Errorf("second open: error = %v, want ErrInUse and the folder's name", err)
	}
	if err := first.unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := openDataDir(root)
	if err != nil {
		t.Fatalf("open after unlock: %v", err)
	}
	if err := again.unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestDataFolderThatIsAFileIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openDataDir(file)
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error = %v, want one that names %s", err, file)
	}
}

func TestWriteFileReplacesWithPrivateFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "secret")
	if err := os.WriteFile(name, []byte("a longer old content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(name, []byte("new")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil || string(data) != "new" {
		t.Errorf("content = %q, %v, want %q", data, err, "new")
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("folder holds %v, %v, want only the file", entries, err)
	}
}

func TestUnreadableLastPortCountsAsNone(t *testing.T) {
	d, err := openDataDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.unlock() //nolint:errcheck // the test is over
	if got := d.lastPort(); got != 0 {
		t.Errorf("port of a new folder = %d, want 0", got)
	}
	if err := d.savePort(6443); err != nil {
		t.Fatal(err)
	}
	if got := d.lastPort(); got != 6443 {
		t.Errorf("port = %d, want 6443", got)
	}
	for _, note := range []string{"", "-1", "70000", "x"} {
		if err := os.WriteFile(d.port(), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := d.lastPort(); got != 0 {
			t.Errorf("port of note %q = %d, want 0", note, got)
		}
	}
}
