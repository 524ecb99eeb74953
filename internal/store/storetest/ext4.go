package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Ext4 is a file system that can refuse writes, in a file.
type Ext4 struct {
	Disk
	image string
}

// NewExt4 mounts one until the end of the test. It skips the test where mounting
// is not permitted.
func NewExt4(t testing.TB) *Ext4 {
	t.Helper()
	d := &Ext4{Disk: Disk{t: t, Dir: t.TempDir()}, image: filepath.Join(t.TempDir(), "image")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 32<<20); err != nil {
		t.Fatal(err)
	}
	_, err := d.run("mkfs.ext4", "-q", "-F", d.image)
	if err == nil {
		err = d.mount()
	}
	if err != nil {
		lacks(t, fmt.Sprintf("a file system is made and mounted for this test, which takes root, e2fsprogs and loop devices: %v", err))
	}
	t.Cleanup(d.unmount)
	return d
}

func (d *Ext4) mount() error {
	_, err := d.run("mount", "-o", "loop,errors=remount-ro", d.image, d.Dir)
	return err
}

// Remount mounts the file system anew, as after a repair.
func (d *Ext4) Remount() {
	d.t.Helper()
	d.unmount()
	if err := d.mount(); err != nil {
		d.t.Fatal(err)
	}
}

// Forbid makes everything in the file system immutable, until the returned
// function takes that back.
func (d *Ext4) Forbid() (allow func()) {
	d.t.Helper()
	change := func(how string) {
		d.t.Helper()
		if _, err := d.run("chattr", "-R", how, d.Dir); err != nil {
			d.t.Fatal(err)
		}
	}
	change("+i")
	return func() { change("-i") }
}

// Break makes the kernel believe that the file system is damaged: it permits no
// more writes until it is mounted anew.
func (d *Ext4) Break() {
	d.t.Helper()
	device, err := d.run("losetup", "--noheadings", "--output", "NAME", "--associated", d.image)
	if err != nil {
		d.t.Fatal(err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
		d.t.Fatal(err)
	}
}

// run runs a program and returns what it prints.
func (d *Ext4) run(program string, args ...string) (string, error) {
	output, err := exec.CommandContext(d.t.Context(), program, args...).CombinedOutput() //nolint:gosec // the tests' own commands
	if err != nil {
		return "", fmt.Errorf("%s %v: %w: %s", program, args, err, output)
	}
	return strings.TrimSpace(string(output)), nil
}
