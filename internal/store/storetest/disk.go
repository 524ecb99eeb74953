package storetest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/internal/store"
)

// Disk is a small file system.
type Disk struct {
	t   testing.TB
	Dir string
}

// lacks skips a test that this machine cannot run, but never in CI, which is a
// machine that can.
func lacks(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// NewDisk mounts a file system of this size in bytes until the end of the test. It
// skips the test where mounting is not permitted.
func NewDisk(t testing.TB, size int) *Disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-disk-") //nolint:usetesting // only the owner may look into t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
	if errors.Is(err, syscall.EPERM) {
		_ = os.Remove(dir)
		lacks(t, "a small disk is mounted for this test, which takes root")
	}
	if err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	d := &Disk{t: t, Dir: dir}
	t.Cleanup(func() {
		d.unmount()
		_ = os.Remove(dir) // it stays when the disk does
	})
	return d
}

func (d *Disk) unmount() {
	d.t.Helper()
	if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
		d.t.Errorf("unmount %s: %v", d.Dir, err)
	}
}

// Fill takes the space that is left, until the returned function gives it back.
func (d *Disk) Fill() (free func()) {
	d.t.Helper()
	ballast := filepath.Join(d.Dir, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		d.t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("fill the disk: %v", err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			d.t.Error(err)
		}
	}
}

// Options are those of a database on the disk, of the kind that the tests run on.
func (d *Disk) Options() store.Options {
	d.t.Helper()
	if OnPostgres() {
		return store.Options{URL: d.Postgres()}
	}
	return store.Options{Dir: filepath.Join(d.Dir, "data")}
}

// Postgres returns the URL of an empty PostgreSQL schema whose tables are on the
// disk. It skips the test when the server runs elsewhere.
func (d *Disk) Postgres() string {
	d.t.Helper()
	if os.Getenv(serverVar) != "" {
		d.t.Skip("the server of " + serverVar + " has disks of its own")
	}
	server := ownServer(d.t)
	folder := filepath.Join(d.Dir, "tables")
	if err := os.Mkdir(folder, 0o700); err != nil {
		d.t.Fatal(err)
	}
	if account := started.server.account; account != nil {
		if err := os.Chown(folder, int(account.Uid), int(account.Gid)); err != nil {
			d.t.Fatal(err)
		}
	}
	name := "disk_" + strings.ToLower(rand.Text())
	execute(d.t, server, fmt.Sprintf("CREATE TABLESPACE %s LOCATION '%s'", name, folder))
	d.t.Cleanup(func() { execute(d.t, server, "DROP TABLESPACE "+name) })
	database, err := url.Parse(NewSchema(d.t))
	if err != nil {
		d.t.Fatal(err)
	}
	query := database.Query()
	query.Set("default_tablespace", name)
	database.RawQuery = query.Encode()
	return database.String()
}
