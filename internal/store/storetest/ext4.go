package storetest

import (
	"os"
	"os/exec"
	"path/filepath"
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
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", d.image}, d.mounting()} {
		if output, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("a file system is made and mounted for this test, which takes root, e2fsprogs and loop devices: %v: %s", err, output)
		}
	}
	t.Cleanup(d.unmount)
	return d
}

func (d *Ext4) mounting() []string {
	return []string{"mount", "-o", "loop,errors=remount-ro", d.image, d.Dir}
}

// Remount mounts the file system anew, as after a repair.
func (d *Ext4) Remount() {
	d.t.Helper()
	d.unmount()
	d.do(d.mounting()...)
}

// Forbid makes everything in the file system immutable, until the returned
// function takes that back.
func (d *Ext4) Forbid() (allow func()) {
	d.t.Helper()
	d.do("chattr", "-R", "+i", d.Dir)
	return func() { d.do("chattr", "-R", "-i", d.Dir) }
}

// Break makes the kernel believe that the file system is damaged: it permits no
// more writes until it is mounted anew.
func (d *Ext4) Break() {
	d.t.Helper()
	device, err := exec.CommandContext(d.t.Context(), "losetup", "--noheadings", "--output", "NAME", "--associated", d.image).Output()
	if err != nil {
		d.t.Fatalf("find the device of %s: %v", d.image, err)
	}
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(string(device[:len(device)-1])), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Ext4) do(command ...string) {
	d.t.Helper()
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil { //nolint:gosec // the test's own commands
		d.t.Fatalf("%v: %v: %s", command, err, output)
	}
}
