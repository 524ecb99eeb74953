package imagecache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/imagecache"
	"github.com/ingot-metal/ingot/internal/polltest"
	"github.com/ingot-metal/ingot/internal/store/storetest"
)

const limit = 1 << 20

// open opens a cache in a folder until the test ends.
func open(t *testing.T, dir string, changes ...func(*imagecache.Options)) *imagecache.Cache {
	t.Helper()
	o := imagecache.Options{Dir: dir, Limit: limit, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&o)
	}
	c, err := imagecache.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return c
}

// content returns bytes that no other number has.
func content(number, size int) []byte {
	return bytes.Repeat([]byte{byte(number), 'i', 'n', 'g', 'o', 't', '-', byte(number >> 8)}, size/8)
}

func read(t *testing.T, c *imagecache.Cache, url string) []byte {
	t.Helper()
	image, err := c.Get(t.Context(), url)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer func() { _ = image.Close() }()
	got, err := io.ReadAll(image)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantError returns the text of the error of an image.
func wantError(t *testing.T, c *imagecache.Cache, url string, parts ...string) {
	t.Helper()
	_, err := c.Prepare(t.Context(), url)
	if err == nil {
		t.Errorf("%s: no error, want one with %q", url, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q in it", url, err, part)
		}
	}
}

// web is a web server with files that a test can change.
type web struct {
	*httptest.Server
	mu       sync.Mutex
	files    map[string][]byte
	requests []string // path, and range if any
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{files: map[string][]byte{}}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *web) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	body, ok := w.files[r.URL.Path]
	w.requests = append(w.requests, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	w.mu.Unlock()
	if !ok {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(body))[:16]))
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(body))
}

func (w *web) set(path string, body []byte) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[path] = body
	return w.URL + path
}

func (w *web) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.requests...)
}

func TestManyCallersShareOneDownload(t *testing.T) {
	w := newWeb(t)
	c := open(t, t.TempDir())
	url, want := w.set("/kernel", content(1, 4096)), content(1, 4096)
	var callers sync.WaitGroup
	var wrong atomic.Int32
	for range 32 {
		callers.Go(func() {
			image, err := c.Get(t.Context(), url)
			if err != nil {
				wrong.Add(1)
				return
			}
			defer image.Close()
			if got, _ := io.ReadAll(image); !bytes.Equal(got, want) {
				wrong.Add(1)
			}
		})
	}
	callers.Wait()
	if asked := w.asked(); wrong.Load() > 0 || len(asked) != 1 {
		t.Errorf("%d callers got something else; requests %q, want one", wrong.Load(), asked)
	}
}

func TestImageWithChecksumIsVerifiedAndNeverAskedForAgain(t *testing.T) {
	w := newWeb(t)
	dir := t.TempDir()
	body := content(2, 4096)
	url := w.set("/ramdisk", body) + fmt.Sprintf("#sha256=%x", sha256.Sum256(body))
	first := open(t, dir)
	if got := read(t, first, url); !bytes.Equal(got, body) {
		t.Fatal("wrong content")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := read(t, open(t, dir), url); !bytes.Equal(got, body) {
		t.Error("wrong content from the next process")
	}
}

func TestWrongChecksumIsRefusedAndNotKept(t *testing.T) {
	w := newWeb(t)
	dir := t.TempDir()
	c := open(t, dir)
	url := w.set("/ramdisk", content(3, 4096)) + fmt.Sprintf("#sha256=%x", sha256.Sum256([]byte("another")))
	wantError(t, c, url, "checksum")
	if left := imagesIn(t, dir); len(left) > 0 {
		t.Errorf("the folder has %q", left)
	}
}

// imagesIn lists the files of a folder that are about images.
func imagesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if file.Name() != "lock" {
			names = append(names, file.Name())
		}
	}
	return names
}

func TestChangedImageIsFetchedAnewAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &inMemory{body: content(4, 4096), etag: `"a"`}
		c := open(t, t.TempDir(), server.transport)
		const url = "http://images.example/kernel"
		read(t, c, url)
		read(t, c, url)
		if server.asked != 1 {
			t.Errorf("%d requests within the minute, want 1", server.asked)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		read(t, c, url)
		if server.asked != 2 || server.sent != 1 {
			t.Errorf("%d requests, %d bodies; want that the second asked whether it has changed", server.asked, server.sent)
		}
		server.body, server.etag = content(5, 4096), `"b"`
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		if got := read(t, c, url); !bytes.Equal(got, content(5, 4096)) {
			t.Error("the changed image was not fetched")
		}
		server.down = true
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		if got := read(t, c, url); !bytes.Equal(got, content(5, 4096)) {
			t.Error("the image is not used while the server is down")
		}
	})
}

func TestServerThatStopsSendingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &inMemory{body: content(6, 4096), etag: `"a"`, hang: true}
		c := open(t, t.TempDir(), server.transport)
		start := time.Now()
		wantError(t, c, "http://images.example/kernel", "sent nothing for 30s")
		if took := time.Since(start); took > 10*time.Minute {
			t.Errorf("gave up after %s", took)
		}
		asked := server.asked
		wantError(t, c, "http://images.example/kernel", "sent nothing for 30s")
		if server.asked != asked {
			t.Error("the failure was not remembered for the next caller")
		}
	})
}

func TestCallerThatLeavesDoesNotEndTheDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &inMemory{body: content(7, 4096), etag: `"a"`, slow: time.Minute / 4}
		c := open(t, t.TempDir(), server.transport)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Prepare(ctx, "http://images.example/kernel"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want that of the caller's deadline", err)
		}
		read(t, c, "http://images.example/kernel")
		if server.asked != 1 {
			t.Errorf("%d requests, want 1", server.asked)
		}
	})
}

// inMemory answers requests without a network, so that time can pass at once.
type inMemory struct {
	body        []byte
	etag        string
	down, hang  bool
	slow        time.Duration // before each body
	asked, sent int
	script      func(*http.Request) *http.Response // answers instead, if it is not nil
}

func (s *inMemory) transport(o *imagecache.Options) { o.Transport = s }

func (s *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	switch {
	case s.down:
		return nil, errors.New("no route to host")
	case s.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case s.script != nil:
		return s.script(r), nil
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("ETag", s.etag)
	http.ServeContent(recorder, r, "", time.Time{}, bytes.NewReader(s.body))
	answer := recorder.Result()
	answer.ContentLength, _ = strconv.ParseInt(answer.Header.Get("Content-Length"), 10, 64)
	if answer.StatusCode != http.StatusNotModified {
		s.sent++
		time.Sleep(s.slow) //nolint:forbidigo // the clock is that of the bubble
	}
	return answer, nil
}

func TestBrokenDownloadGoesOnWhereItEnded(t *testing.T) {
	body := content(8, 64<<10)
	var broken atomic.Int32
	var ranges sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		number := broken.Add(1)
		ranges.Store(number, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
		if number > 1 {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:20000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c := open(t, t.TempDir())
	if got := read(t, c, server.URL+fmt.Sprintf("/r#sha256=%x", sha256.Sum256(body))); !bytes.Equal(got, body) {
		t.Error("wrong content")
	}
	if got, _ := ranges.Load(int32(2)); got != `bytes=20000- "x"` {
		t.Errorf("the second request had %q", got)
	}
}

func TestDownloadThatARestartEndedGoesOn(t *testing.T) {
	body := content(9, 64<<10)
	hold, end := make(chan struct{}), make(chan struct{})
	var requests atomic.Int32
	var asked atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		if requests.Add(1) > 1 {
			asked.Store(r.Header.Get("Range"))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body[:30000])
		w.(http.Flusher).Flush()
		close(hold)
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(end)
	dir := t.TempDir()
	c := open(t, dir)
	go func() { _, _ = c.Prepare(context.Background(), server.URL+"/r") }()
	<-hold
	part := waitForPart(t, dir, 30000)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(part); err != nil {
		t.Fatalf("the part was not kept: %v", err)
	}
	if got := read(t, open(t, dir), server.URL+"/r"); !bytes.Equal(got, body) {
		t.Error("wrong content")
	}
	if got := asked.Load(); got != "bytes=30000-" {
		t.Errorf("the next process asked for %v", got)
	}
}

// waitForPart polls until a folder has the part of an image of a size.
func waitForPart(t *testing.T, dir string, size int64) string {
	t.Helper()
	var found string
	polltest.UntilTrue(t, 10*time.Second, fmt.Sprintf("a part of %d bytes", size), func() bool {
		parts, _ := filepath.Glob(filepath.Join(dir, "*.part"))
		for _, part := range parts {
			if info, err := os.Stat(part); err == nil && info.Size() == size {
				found = part
			}
		}
		return found != ""
	})
	return found
}

func TestOnlyWholeFilesOfItsOwnAreFoundAgain(t *testing.T) {
	dir := t.TempDir()
	key := func(letter string) string { return strings.Repeat(letter, 64) }
	own := []string{key("a") + ".image", key("a") + ".part", key("b") + ".image.json", key("c") + ".image.json.new", key("d") + "-" + key("e")[:16] + ".image"}
	others := []string{"README", "abc.image", key("A") + ".image"}
	for _, name := range slices.Concat(own, others) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	left := imagesIn(t, dir)
	slices.Sort(left)
	if diff := cmp.Diff(slices.Sorted(slices.Values(others)), left); diff != "" {
		t.Errorf("the folder has (-want +got):\n%s", diff)
	}
}

// A file system of its own has this folder, which belongs to somebody else.
func TestFolderThatCannotBeReadDelaysNobody(t *testing.T) {
	dir := t.TempDir()
	lost := filepath.Join(dir, "lost+found")
	if err := os.MkdirAll(filepath.Join(lost, "#123"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(lost, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(lost, 0o700) }) // so that the folder can be removed
	open(t, dir)
	if left := imagesIn(t, dir); !slices.Equal(left, []string{"lost+found"}) {
		t.Errorf("the folder has %q", left)
	}
}

func TestImagesThatWereNotUsedForLongestMakeRoom(t *testing.T) {
	w := newWeb(t)
	c := open(t, t.TempDir())
	const third = limit / 3
	urls := make([]string, 4)
	for i := range urls {
		urls[i] = w.set(fmt.Sprintf("/%d", i), content(i, third))
	}
	for _, i := range []int{0, 1, 2, 0, 3} { // 1 is the oldest when 3 comes
		read(t, c, urls[i])
	}
	before := len(w.asked())
	for _, i := range []int{0, 2, 3} {
		read(t, c, urls[i])
	}
	if asked := w.asked()[before:]; len(asked) > 0 {
		t.Errorf("fetched again: %q", asked)
	}
	read(t, c, urls[1])
	if asked := w.asked()[before:]; len(asked) != 1 {
		t.Errorf("requests %q, want that the oldest was removed", asked)
	}
}

func TestImagesInUseStay(t *testing.T) {
	w := newWeb(t)
	c := open(t, t.TempDir())
	first, second := w.set("/1", content(1, limit*2/3)), w.set("/2", content(2, limit*2/3))
	used, err := c.Get(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, c, second, "in use", "boot.cache_size")
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	third := w.set("/3", content(2, limit*2/3)) // the failure of the second is remembered
	if got := read(t, c, third); len(got) != limit*2/3/8*8 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestImageBeyondTheLimitIsRefused(t *testing.T) {
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // without a length
			if _, err := w.Write(content(1, 64<<10)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	w := newWeb(t)
	dir := t.TempDir()
	c := open(t, dir)
	for _, url := range []string{w.set("/large", content(1, 2*limit)), endless.URL + "/endless"} {
		wantError(t, c, url, "does not fit", "boot.cache_size")
	}
	if left := imagesIn(t, dir); len(left) > 0 {
		t.Errorf("the folder has %q", left)
	}
}

func TestFullDiskIsOneClearError(t *testing.T) {
	storetest.InOwnProcess(t, func() {
		w := newWeb(t)
		dir := t.TempDir()
		c := open(t, dir)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16 << 10, Max: 16 << 10}); err != nil {
			t.Fatal(err)
		}
		wantError(t, c, w.set("/ramdisk", content(1, 64<<10)), "is full", dir, "boot.cache_size")
		if left := imagesIn(t, dir); len(left) > 0 {
			t.Errorf("the folder has %q", left)
		}
		if asked := w.asked(); len(asked) != 1 {
			t.Errorf("requests %q, want one", asked)
		}
		read(t, c, w.set("/kernel", content(2, 8<<10)))
	})
}

func TestRefusals(t *testing.T) {
	w := newWeb(t)
	w.set("/empty", nil)
	redirects := http.NewServeMux()
	for path, to := range map[string]string{"/file": "file:///etc/hostname", "/ftp": "ftp://example.org/k", "/loop": "/loop"} {
		redirects.Handle("GET "+path, http.RedirectHandler(to, http.StatusFound))
	}
	plain := httptest.NewServer(redirects)
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(w.URL+"/kernel", http.StatusFound))
	defer secure.Close()
	c := open(t, t.TempDir(), func(o *imagecache.Options) { o.Transport = secure.Client().Transport })
	for url, want := range map[string]string{
		"ftp://example.org/kernel": "neither http:// nor https://", "kernel": "neither", "http:///kernel": "no host", "http://%zz": "not a URL",
		"file:///etc/hostname": "boot.file_root", "http://h/k#sha256=12": "checksum", "http://h/k#md5=d41d8cd98f00b204e9800998ecf8427e": "checksum",
		w.URL + "/gone": "404", w.URL + "/empty": "empty", secure.URL + "/kernel": "redirects from https to http",
		plain.URL + "/file": "redirects from http to file", plain.URL + "/ftp": "redirects from http to ftp", plain.URL + "/loop": "more than 5 times",
	} {
		wantError(t, c, url, want)
	}
}

func TestErrorsDoNotNameCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &inMemory{down: true}
		c := open(t, t.TempDir(), server.transport)
		_, err := c.Prepare(t.Context(), "http://user:hush@images.example/kernel?signature=hush")
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("error = %v", err)
		}
	})
}

func TestFilesAreReadBelowTheirFolderOnly(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for _, path := range []string{filepath.Join(root, "kernel"), outside} {
		if err := os.WriteFile(path, []byte("content of "+filepath.Base(path)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	c := open(t, t.TempDir(), func(o *imagecache.Options) { o.FileRoot = root })
	if got := read(t, c, "file://"+root+"/kernel"); string(got) != "content of kernel" {
		t.Errorf("read %q", got)
	}
	wrong := sha256.Sum256([]byte("x"))
	for url, want := range map[string]string{
		"file://" + outside:                                    "not below",
		"file://" + root + "/../x":                             "not below",
		"file://" + root + "/link":                             "escapes",
		"file://" + root:                                       "not a regular file",
		"file://" + root + "/absent":                           "no such file",
		"file://host" + root + "/kernel":                       "not of the form",
		fmt.Sprintf("file://%s/kernel#sha256=%x", root, wrong): "checksum",
	} {
		wantError(t, c, url, want)
	}
}

func TestFolderIsUsedByOneProcess(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if _, err := imagecache.Open(imagecache.Options{Dir: dir, Limit: limit}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("error = %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}
