package imagecache_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A service on loopback stands for all services that trust whoever reaches them.
func TestRedirectsDoNotLeadInside(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("credentials"))
	}))
	defer inside.Close()
	port := inside.URL[strings.LastIndex(inside.URL, ":"):]
	c := open(t, t.TempDir())
	read(t, c, inside.URL+"/given") // an idle connection is there then
	before := asked.Load()
	for _, to := range []string{
		"http://127.0.0.1" + port, "http://localhost" + port, "http://LOCALHOST" + port, "http://[::ffff:127.0.0.1]" + port, "http://0.0.0.0" + port,
		"http://127.7.7.7" + port, "http://169.254.169.254", "http://[::1]" + port, "http://[fe80::1%25lo]" + port,
	} {
		web := httptest.NewServer(http.RedirectHandler(to+"/latest/meta-data", http.StatusFound))
		wantError(t, c, web.URL+"/kernel", "redirects to an address of this machine")
		web.Close()
	}
	if got := asked.Load() - before; got > 0 {
		t.Errorf("%d requests reached the inside", got)
	}
}

func TestRedirectsOnTheGivenServerAreFollowed(t *testing.T) {
	files := http.NewServeMux()
	files.Handle("GET /latest", http.RedirectHandler("/7/kernel", http.StatusFound))
	files.HandleFunc("GET /7/kernel", func(w http.ResponseWriter, r *http.Request) {
		if referer := r.Header.Get("Referer"); referer != "" {
			t.Errorf("the server heard of %q", referer)
		}
		_, _ = w.Write(content(1, 1024))
	})
	server := httptest.NewServer(files)
	defer server.Close()
	if got := read(t, open(t, t.TempDir()), server.URL+"/latest?signature=hush"); !bytes.Equal(got, content(1, 1024)) {
		t.Error("wrong content")
	}
}

func TestURLMayNameThisMachineItself(t *testing.T) {
	w := newWeb(t)
	w.set("/kernel", content(1, 1024))
	url := strings.Replace(w.URL, "127.0.0.1", "localhost", 1) + "/kernel"
	if got := read(t, open(t, t.TempDir()), url); !bytes.Equal(got, content(1, 1024)) {
		t.Error("wrong content")
	}
}
