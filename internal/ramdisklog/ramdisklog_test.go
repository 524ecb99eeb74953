package ramdisklog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archiveOf packs files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// filesOf unpacks an archive.
func filesOf(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(unpacked); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func TestLogsAreKeptWithinBounds(t *testing.T) {
	long := strings.Repeat("x", maxFile+margin) + "the end"
	kept, err := repack(t.Context(), archiveOf(t, map[string]string{"../../etc/passwd": "a", "/var/log/long": long}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"etc/passwd": "a", "var/log/long": long[margin+len("the end"):]}, filesOf(t, kept)); diff != "" {
		t.Errorf("(-want +got):\n%.500s", diff)
	}
	noise := make([]byte, maxFile)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for name, archive := range map[string][]byte{
		"no archive":       []byte("<html>"),
		"half an archive":  archiveOf(t, map[string]string{"journal": long})[:1000],
		"too much to pack": archiveOf(t, map[string]string{"1": string(noise), "2": string(noise), "3": string(noise)}),
	} {
		if kept, err := repack(t.Context(), archive, nil); err == nil {
			t.Errorf("%s: %d bytes were kept", name, len(kept))
		}
	}
}

// TestLongLogsAreCutToTheirEnds has a journal that is longer than the limit.
func TestLongLogsAreCutToTheirEnds(t *testing.T) {
	journal := strings.Repeat("a line of the journal\n", (2*maxKept)/22) + "the end\n"
	kept, err := repack(t.Context(), archiveOf(t, map[string]string{"journal": journal, "short": "x"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"journal": journal[len(journal)-maxFile:], "short": "x"}, filesOf(t, kept)); diff != "" {
		t.Errorf("(-want +got):\n%.500s", diff)
	}
}

// TestArchiveThatReachesABoundIsKeptSoFar has archives that would take too much memory, or time.
func TestArchiveThatReachesABoundIsKeptSoFar(t *testing.T) {
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many[strconv.Itoa(i)] = "x"
	}
	for name, tc := range map[string]struct {
		within  time.Duration
		archive []byte
		says    string
		files   int
	}{
		"too large":      {time.Minute, largeArchive(t), "256 MiB", 2},
		"too many files": {time.Minute, archiveOf(t, many), "500 files", maxFiles},
		"too late":       {0, archiveOf(t, many), "time", 0},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tc.within)
		kept, err := repack(ctx, tc.archive, nil)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		files := filesOf(t, kept)
		if note := files[incompleteName]; !strings.Contains(note, tc.says) || len(files) != tc.files+1 {
			t.Errorf("%s: %d files, and one says %q, want %d and %q", name, len(files), note, tc.files, tc.says)
		}
	}
}

// largeArchive packs a short log, one that is longer than what is unpacked, and one behind it.
func largeArchive(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	compressed, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	w := tar.NewWriter(compressed)
	for _, file := range []struct {
		name string
		size int64
	}{{"first", 1}, {"long", maxUnpacked}, {"behind", 1}} {
		err := w.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: file.size})
		if _, copied := io.CopyN(w, zeros{}, file.size); err != nil || copied != nil {
			t.Fatal(err, copied)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestSecretAtTheCutIsNotKept has a file whose kept end begins within a secret.
func TestSecretAtTheCutIsNotKept(t *testing.T) {
	secret := "0123456789abcdef"
	for shift := range len(secret) + 1 {
		content := strings.Repeat("\n", margin) + secret + strings.Repeat("\n", 100-shift)
		if got := string(end([]byte(content), 100, margin, []string{secret})); strings.ContainsAny(got, secret) {
			t.Errorf("of a secret %d bytes before the cut, %q is kept", shift, strings.TrimSpace(got))
		}
	}
}

// list returns the names of the files in a folder.
func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// kept keeps the logs of a node at a second, with a time of change as if it were then.
func kept(t *testing.T, f *Folder, node string, second int, archive []byte) string {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC)
	name := Name(node, "", at)
	if err := f.Keep(t.Context(), name, archive, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(f.dir, name), at, at); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNewestLogsOfEachNodeAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	f, err := Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := archiveOf(t, map[string]string{"journal": "x"})
	other := kept(t, f, "b", 0, archive)
	var mine []string
	for second := range perNode + 2 {
		mine = append(mine, kept(t, f, "a", 1+second, archive))
	}
	want := append(slices.Clone(mine[2:]), other, "notes.txt")
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArchivesOfOthersNeitherCountNorMakeRoom(t *testing.T) {
	archive := archiveOf(t, map[string]string{"journal": "x"})
	packed, err := repack(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.TempDir(), int64(2*len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"2026-01-02-03-04-05.tar.gz", "_2026-01-02-03-04-05.tar.gz", "a_2026-01-02.tar.gz", "a_support.tar.gz", "backup.tar.gz"}
	for _, name := range want {
		if err := os.WriteFile(filepath.Join(f.dir, name), packed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want = append(want, kept(t, f, "a", 0, archive), kept(t, f, "b", 1, archive))
	slices.Sort(want)
	if diff := cmp.Diff(want, list(t, f.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOldestLogsMakeRoom(t *testing.T) {
	archive := archiveOf(t, map[string]string{"journal": "x"})
	packed, err := repack(t.Context(), archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.TempDir(), int64(2*len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	kept(t, f, "a", 0, archive)
	want := []string{kept(t, f, "b", 1, archive), kept(t, f, "c", 2, archive)}
	if diff := cmp.Diff(want, list(t, f.dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFilesOfKilledProcessesAreRemoved also has a file that another process may still be writing.
func TestFilesOfKilledProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	f, err := Open(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, age time.Duration) {
		t.Helper()
		path, at := filepath.Join(dir, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, []byte("half"), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	add(".new-1", 2*time.Hour)
	add(".new-2", time.Minute)
	add(".newer", 2*time.Hour)
	add("notes.txt", 2*time.Hour)
	name := kept(t, f, "a", 0, archiveOf(t, map[string]string{"journal": "x"}))
	want := []string{".new-2", ".newer", name, "notes.txt"}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("after other logs were kept (-want +got):\n%s", diff)
	}
	add(".new-3", 2*time.Hour)
	if _, err := Open(dir, 1<<20); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("after a start (-want +got):\n%s", diff)
	}
}

func TestArchiveIsNamedAsTheBareMetalServiceNamesIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	if got := Name("n", "i", at); got != "n_i_2026-01-02-02-04-05.tar.gz" {
		t.Error(got)
	}
}

func TestKeepingWaitsNoLongerThanItMay(t *testing.T) {
	f, err := Open(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range atOnce {
		f.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Keep(ctx, "a_b.tar.gz", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzRepack(f *testing.F) {
	f.Add([]byte("not gzip"), "hunter2")
	f.Fuzz(func(t *testing.T, archive []byte, secret string) {
		kept, err := repack(t.Context(), archive, []string{secret})
		if err == nil && len(kept) > maxPacked {
			t.Errorf("%d bytes are kept", len(kept))
		}
	})
}
