package pxefilter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files returns the content of every file of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(data)
	}
	return all
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := files(t, dir)
	delete(got, lockFile)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFilesHaveTheSyntaxOfDnsmasq(t *testing.T) {
	f := newFolder(t.TempDir())
	for name, v := range map[string]Verdict{mac1: Allow, mac2: Deny, unknownFile: Allow} {
		if err := f.write(name, v); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles(t, f.dir, map[string]string{mac1: mac1 + "\n", mac2: mac2 + ",ignore\n", unknownFile: "*:*:*:*:*:*\n"})
	if err := f.write(unknownFile, Deny); err != nil {
		t.Fatal(err)
	}
	if got := files(t, f.dir)[unknownFile]; got != "*:*:*:*:*:*,ignore\n" {
		t.Errorf("unknown machines: %q", got)
	}
	info, err := os.Stat(filepath.Join(f.dir, mac1))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, want one that dnsmasq's own user can read", info.Mode())
	}
}

func TestScanReadsItsOwnFilesOnly(t *testing.T) {
	f := newFolder(t.TempDir())
	put(t, f.dir, mac1, mac1+"\n")
	put(t, f.dir, mac2, mac2+",ignore\n")
	put(t, f.dir, mac3, mac3+",192.0.2.7\n") // by somebody else
	put(t, f.dir, unknownFile, "")
	put(t, f.dir, "printers", "52:54:00:99:99:99,192.0.2.9\n")
	put(t, f.dir, "52:54:00:AB:CD:EF", "upper case is not ours\n")
	put(t, f.dir, lockFile, "")
	if err := f.scan(time.Now()); err != nil {
		t.Fatal(err)
	}
	want := map[string]Verdict{mac1: Allow, mac2: Deny, mac3: "", unknownFile: ""}
	if diff := cmp.Diff(want, f.files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestScanNoticesWhatOthersDid(t *testing.T) {
	f := newFolder(t.TempDir())
	for _, mac := range []string{mac1, mac2, mac3} {
		if err := f.write(mac, Deny); err != nil {
			t.Fatal(err)
		}
	}
	put(t, f.dir, mac1, "spoilt")
	if err := os.Remove(filepath.Join(f.dir, mac2)); err != nil {
		t.Fatal(err)
	}
	if err := f.scan(time.Now()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]Verdict{mac1: "", mac3: Deny}, f.files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestScanOfAnUnchangedFolderReadsItsFilesNowAndThen(t *testing.T) {
	f, now := newFolder(t.TempDir()), time.Now()
	put(t, f.dir, mac1, mac1+"\n")
	scan := func(after time.Duration) Verdict {
		t.Helper()
		if err := f.scan(now.Add(after)); err != nil {
			t.Fatal(err)
		}
		return f.files[mac1]
	}
	scan(0)
	put(t, f.dir, mac1, "spoilt in its place")
	if got := scan(trusted - time.Second); got != Allow {
		t.Errorf("every file was looked at again at once: %q", got)
	}
	if got := scan(trusted); got != "" {
		t.Errorf("the spoilt file counts as %q", got)
	}
}

func TestLinksAreReplacedAndNotFollowed(t *testing.T) {
	f := newFolder(t.TempDir())
	outside := filepath.Join(t.TempDir(), "precious")
	put(t, filepath.Dir(outside), "precious", mac1+"\n")
	if err := os.Symlink(outside, filepath.Join(f.dir, mac1)); err != nil {
		t.Fatal(err)
	}
	if err := f.scan(time.Now()); err != nil {
		t.Fatal(err)
	}
	if v := f.files[mac1]; v != "" {
		t.Errorf("the link counts as %q, want it replaced", v)
	}
	if err := f.write(mac1, Deny); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, f.dir, map[string]string{mac1: mac1 + ",ignore\n"})
	if got := files(t, filepath.Dir(outside))["precious"]; got != mac1+"\n" {
		t.Errorf("the file behind the link says %q now", got)
	}
}

func TestAFailedWriteLeavesTheFileAsItWas(t *testing.T) {
	f := newFolder(t.TempDir())
	if err := f.write(mac1, Deny); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.dir, mac2), 0o700); err != nil {
		t.Fatal(err)
	}
	err := f.write(mac2, Allow)
	if err == nil || !strings.Contains(err.Error(), "remove what is in the way") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v, want one line that says what to do", err)
	}
	if err := os.Remove(filepath.Join(f.dir, mac2)); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, f.dir, map[string]string{mac1: mac1 + ",ignore\n"})
}

func TestSweepRemovesWhatAKilledProcessLeft(t *testing.T) {
	f := newFolder(t.TempDir())
	put(t, f.dir, temporaryPrefix+"123"+temporarySuffix, mac1[:7])
	put(t, f.dir, ".hidden", "not ours")
	put(t, f.dir, mac1, mac1+"\n")
	if err := f.sweep(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, f.dir, map[string]string{mac1: mac1 + "\n", ".hidden": "not ours"})
}

func TestErrorsOfTheFolderSayWhatToDo(t *testing.T) {
	f := newFolder("/srv/hosts")
	for _, test := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "/srv/hosts/.x", Err: syscall.ENOSPC}, "write a in folder /srv/hosts: no space left on device: make space on its disk"},
		{&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EROFS}, "write a in folder /srv/hosts: read-only file system: let this process write to it"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "write a in folder /srv/hosts: permission denied: let the user of this process write to it"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EIO}, "write a in folder /srv/hosts: input/output error"},
	} {
		if got := f.problem("write a in", test.err); got.Error() != test.want || !errors.Is(got, errors.Unwrap(test.err)) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestOneProcessHasTheLock(t *testing.T) {
	f := newFolder(t.TempDir())
	first, err := f.take()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newFolder(f.dir).take(); !errors.Is(err, errTaken) {
		t.Fatalf("second process: error = %v, want errTaken", err)
	}
	first.release()
	second, err := newFolder(f.dir).take()
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	defer second.release()
	if !f.holds(second) {
		t.Error("the lock is not held")
	}
	if err := os.Remove(filepath.Join(f.dir, lockFile)); err != nil {
		t.Fatal(err)
	}
	if f.holds(second) {
		t.Error("the lock counts as held although its file is gone")
	}
}
