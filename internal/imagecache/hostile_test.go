package imagecache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/polltest"
)

// script answers the requests for an image in their order, the last answer again and again.
type script struct {
	*httptest.Server
	asked atomic.Int32
}

func newScript(t *testing.T, answers ...http.HandlerFunc) *script {
	t.Helper()
	s := &script{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(s.asked.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// whole answers an image with an ETag, and Range.
func whole(body []byte, etag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// broken announces an image and breaks off after some bytes.
func broken(body []byte, etag string, after int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body[:after])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestHugeAnnouncedSizesDoNotLiftTheLimit(t *testing.T) {
	release := make(chan struct{})
	slow := newScript(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(limit/2))
		_, _ = w.Write([]byte{1})
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	huge := newScript(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(int64(math.MaxInt64)))
		_, _ = w.Write(content(1, 4*limit))
	})
	dir := t.TempDir()
	c := open(t, dir)
	go func() { _, _ = c.Prepare(t.Context(), slow.URL+"/slow") }()
	waitForPart(t, dir, 1) // it holds half of the cache
	wantError(t, c, huge.URL+"/huge", "does not fit")
}

func TestAnswerOfAnotherVersionIsNotAppended(t *testing.T) {
	old, changed := content(1, 4096), content(2, 4096)
	s := newScript(t, broken(old, `"old"`, 1000), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"new"`)
		r.Header.Del("If-Range") // as servers do that do not know it
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(changed))
	})
	if got := read(t, open(t, t.TempDir()), s.URL+"/kernel"); !bytes.Equal(got, changed) {
		t.Error("the image has bytes of two versions")
	}
}

func TestValidatorThatIsTooLongToSendBackIsNotUsed(t *testing.T) {
	body := content(1, 4096)
	etag := `"` + strings.Repeat("a", 4096) + `"`
	s := newScript(t, broken(body, etag, 1000), func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("If-Range")) > 1000 {
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		whole(body, etag)(w, r)
	})
	if got := read(t, open(t, t.TempDir()), s.URL+"/kernel"); !bytes.Equal(got, body) {
		t.Error("wrong content")
	}
}

func TestStatusTextOfAServerIsNotRepeated(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 404 %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("no ", 10000))
		_ = conn.Close()
	})
	_, err := open(t, t.TempDir()).Prepare(t.Context(), s.URL+"/kernel")
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("error = %.300v, want a short one", err)
	}
}

func TestImageWhoseFileIsGoneIsFetchedAnew(t *testing.T) {
	w := newWeb(t)
	dir := t.TempDir()
	c := open(t, dir)
	url := w.set("/kernel", content(1, 4096))
	read(t, c, url)
	files, err := filepath.Glob(filepath.Join(dir, "*.image"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, error %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if got := read(t, c, url); !bytes.Equal(got, content(1, 4096)) {
		t.Error("wrong content")
	}
}

func TestPartOfAVersionThatWasTakenBackIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		server := &inMemory{body: content(1, 4096), etag: `"a"`}
		c := open(t, dir, server.transport)
		const url = "http://images.example/kernel"
		read(t, c, url)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		server.script = func(r *http.Request) *http.Response {
			if r.Header.Get("Range") != "" {
				return &http.Response{StatusCode: http.StatusNotModified, Body: http.NoBody, Header: http.Header{}}
			}
			return &http.Response{
				StatusCode: http.StatusOK, ContentLength: 8192, Header: http.Header{"Etag": {`"b"`}},
				Body: io.NopCloser(bytes.NewReader(content(2, 4096))),
			}
		}
		read(t, c, url)
		if left := imagesIn(t, dir); len(left) != 2 {
			t.Errorf("the folder has %q, want the image and its note", left)
		}
	})
}

func TestServerThatDoesNotAnswerDelaysNoImageInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &inMemory{body: content(1, 4096), etag: `"a"`}
		c := open(t, t.TempDir(), server.transport)
		const url = "http://images.example/kernel"
		read(t, c, url)
		server.hang = true
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		start := time.Now()
		read(t, c, url)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("a machine waited for %s", took)
		}
	})
}

func TestOneServerThatHangsKeepsNobodyFromOthers(t *testing.T) {
	hanging := newScript(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	w := newWeb(t)
	c := open(t, t.TempDir())
	var callers sync.WaitGroup
	defer callers.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 20 {
		callers.Go(func() { _, _ = c.Prepare(ctx, fmt.Sprintf("%s/%d", hanging.URL, i)) })
	}
	polltest.UntilTrue(t, 10*time.Second, "four requests", func() bool { return hanging.asked.Load() >= 4 })
	bounded, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	other := strings.Replace(w.set("/kernel", content(1, 1024)), "127.0.0.1", "localhost", 1)
	if _, err := c.Prepare(bounded, other); err != nil {
		t.Errorf("the other server's image: %v", err)
	}
}

func TestFileIsVerifiedOnceUntilItChanges(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "ramdisk")
	write := func(body []byte, at time.Time) {
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	first, body := time.Unix(1e9, 0), content(1, 1024)
	url := fmt.Sprintf("file://%s#sha256=%x", path, sha256.Sum256(body))
	c := open(t, t.TempDir(), func(o *imagecache.Options) { o.FileRoot = root })
	write(body, first)
	read(t, c, url)
	write(content(2, 1024), first) // which only reading all of it would tell
	read(t, c, url)
	write(content(2, 1024), first.Add(time.Second))
	wantError(t, c, url, "checksum")
}

func TestClosedCacheBeginsNoDownload(t *testing.T) {
	w := newWeb(t)
	c := open(t, t.TempDir())
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, c, w.set("/kernel", content(1, 1024)), "stopped")
	if asked := w.asked(); len(asked) > 0 {
		t.Errorf("requests %q", asked)
	}
}
