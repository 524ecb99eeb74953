package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

var wanted = []string{"etcd", "kube-apiserver", "kubectl"}

// archiveOf makes a compressed archive of files whose content is their name.
func archiveOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	files := tar.NewWriter(compressed)
	for _, name := range names {
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(name))}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// index serves an index with one archive, and the archive.
type index struct {
	version  string
	platform string
	archive  []byte
	checksum string           // empty means that of the archive
	serve    http.HandlerFunc // instead of the archive
}

func (x index) start(t *testing.T) string {
	t.Helper()
	if x.checksum == "" {
		sum := sha512.Sum512(x.archive)
		x.checksum = hex.EncodeToString(sum[:])
	}
	if x.serve == nil {
		x.serve = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(x.archive) }
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/archive", x.serve)
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases:\n  v%[1]s:\n    envtest-v%[1]s-%[2]s.tar.gz:\n      hash: %[3]s\n      selfLink: %[4]s/archive\n",
			x.version, x.platform, x.checksum, server.URL)
	})
	return server.URL + "/index.yaml"
}

// fetchFrom fetches the wanted programs for linux-amd64 and returns what is in the folder then.
func fetchFrom(t *testing.T, url string, change func(*source)) (there []string, err error) {
	t.Helper()
	s := source{
		index: url, kubernetes: "1.36.3", platform: versions.Platform{OS: "linux", Arch: "amd64"},
		indexTimeout: time.Minute, stallTimeout: time.Minute, downloadTimeout: time.Minute,
	}
	if change != nil {
		change(&s)
	}
	dir := t.TempDir()
	err = s.fetch(t.Context(), dir, wanted)
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for _, e := range entries {
		content, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
		info, statErr := e.Info()
		if readErr != nil || statErr != nil || string(content) != e.Name() || info.Mode().Perm()&0o500 != 0o500 {
			t.Errorf("%s has the content %q and mode %s: %v, %v", e.Name(), content, info.Mode(), readErr, statErr)
		}
		there = append(there, e.Name())
	}
	return there, err
}

func TestTheNamedProgramsOfTheArchiveAreFetched(t *testing.T) {
	archive := archiveOf(t, "etcd", "kubectl", "kube-apiserver", "LICENSE")
	there, err := fetchFrom(t, index{version: "1.36.3", platform: "linux-amd64", archive: archive}.start(t), nil)
	if got := strings.Join(there, " "); err != nil || got != "etcd kube-apiserver kubectl" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestProgramsThatTheArchiveLacksAreMissing(t *testing.T) {
	there, err := fetchFrom(t, index{version: "1.36.3", platform: "linux-amd64", archive: archiveOf(t, "etcd")}.start(t), nil)
	if got := strings.Join(there, " "); err != nil || got != "etcd" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestNothingIsFetchedFromWhatIsNotUsable(t *testing.T) {
	archive := archiveOf(t, wanted...)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	for name, test := range map[string]struct{ index, want string }{
		"index out of reach":     {closed.URL, "connection refused"},
		"index is missing":       {missing.URL, "404 Not Found"},
		"other version":          {index{version: "1.36.2", platform: "linux-amd64", archive: archive}.start(t), "unable to find archive for 1.36.3"},
		"other platform":         {index{version: "1.36.3", platform: "linux-arm64", archive: archive}.start(t), "unable to find archive for 1.36.3"},
		"wrong checksum":         {index{version: "1.36.3", platform: "linux-amd64", archive: archive, checksum: strings.Repeat("0", 128)}.start(t), "checksum mismatch"},
		"no checksum":            {index{version: "1.36.3", platform: "linux-amd64", archive: archive, checksum: "''"}.start(t), "checksum mismatch"},
		"archive is missing":     {index{version: "1.36.3", platform: "linux-amd64", archive: archive, serve: http.NotFound}.start(t), "404 Not Found"},
		"archive is no archive":  {index{version: "1.36.3", platform: "linux-amd64", archive: []byte("milk")}.start(t), "unpack the archive"},
		"archive is half of one": {index{version: "1.36.3", platform: "linux-amd64", archive: archive[:len(archive)/2]}.start(t), "unpack the archive"},
	} {
		t.Run(name, func(t *testing.T) {
			there, err := fetchFrom(t, test.index, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(there) > 0 {
				t.Errorf("got %v, error = %v, want one with %q", there, err, test.want)
			}
		})
	}
}

func TestAnIndexThatHangsIsGivenUpAfterABoundedTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	_, err := fetchFrom(t, server.URL, func(s *source) { s.indexTimeout = 50 * time.Millisecond })
	if err == nil || err.Error() != "no answer from "+server.URL+" within 50ms" {
		t.Errorf("error = %v", err)
	}
}

// half serves half an archive and then nothing, or now and then a byte.
func half(archive []byte, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w)
		_, _ = w.Write(archive[:len(archive)/2])
		_ = flush.Flush()
		if pause == 0 {
			<-r.Context().Done()
			return
		}
		for tick := time.NewTicker(pause); ; {
			select {
			case <-r.Context().Done():
				tick.Stop()
				return
			case <-tick.C:
				_, _ = w.Write([]byte{0})
				_ = flush.Flush()
			}
		}
	}
}

func TestADownloadThatHangsHalfwayIsGivenUp(t *testing.T) {
	archive := archiveOf(t, wanted...)
	url := index{version: "1.36.3", platform: "linux-amd64", archive: archive, serve: half(archive, 0)}.start(t)
	there, err := fetchFrom(t, url, func(s *source) { s.stallTimeout = 100 * time.Millisecond })
	if err == nil || err.Error() != "nothing has come for 100ms" || len(there) > 0 {
		t.Errorf("got %v, error = %v", there, err)
	}
}

func TestADownloadThatNeverEndsIsGivenUp(t *testing.T) {
	archive := archiveOf(t, wanted...)
	url := index{version: "1.36.3", platform: "linux-amd64", archive: archive, serve: half(archive, time.Millisecond)}.start(t)
	_, err := fetchFrom(t, url, func(s *source) { s.downloadTimeout = 200 * time.Millisecond })
	if err == nil || err.Error() != "the download takes longer than 200ms" {
		t.Errorf("error = %v", err)
	}
}

func TestWhatIsTooLargeIsNotWritten(t *testing.T) {
	var kept bytes.Buffer
	w := &watched{w: &kept, room: 4, progress: func() {}}
	if _, err := w.Write([]byte("milk")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("!")); err == nil || kept.String() != "milk" {
		t.Errorf("error = %v, written %q", err, &kept)
	}
}

func TestARangeIsNotAVersion(t *testing.T) {
	err := source{kubernetes: "1.36"}.fetch(context.Background(), t.TempDir(), wanted)
	if err == nil || !strings.Contains(err.Error(), "not one version") {
		t.Errorf("error = %v", err)
	}
}
