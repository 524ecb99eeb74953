package imagecache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/imagecache"
)

// carry answers requests without a network.
type carry func(*http.Request) (*http.Response, error)

func (f carry) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f carry) transport(o *imagecache.Options) { o.Transport = f }

// reader is an io.Reader.
type reader func(p []byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

// slowly sends so many bytes of a body at a time, after a wait, until ctx ends.
func slowly(ctx context.Context, body io.Reader, size int, wait time.Duration) io.Reader {
	return reader(func(p []byte) (int, error) {
		select {
		case <-time.After(wait):
			return body.Read(p[:min(len(p), size)])
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

// answer is an image of an announced size.
func answer(size int64, body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, ContentLength: size, Header: http.Header{"Etag": {`"a"`}}, Body: io.NopCloser(body)}
}

// endless has one byte again and again.
var endless = reader(func(p []byte) (int, error) {
	for i := range p {
		p[i] = 1
	}
	return len(p), nil
})

func TestAnnouncedImageTakesRoomOnlyForWhatCame(t *testing.T) {
	const large = 64 << 20
	kernel := content(1, 4096)
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		server := carry(func(r *http.Request) (*http.Response, error) {
			switch r.URL.Path {
			case "/trickle":
				return answer(large, slowly(r.Context(), endless, 1, 29*time.Second)), nil
			case "/ramdisk":
				return answer(large/2, io.LimitReader(endless, large/2)), nil
			}
			asked.Add(1)
			return answer(int64(len(kernel)), bytes.NewReader(kernel)), nil
		})
		c := open(t, t.TempDir(), server.transport, func(o *imagecache.Options) { o.Limit = large })
		idle := fmt.Sprintf("http://images.example/kernel#sha256=%x", sha256.Sum256(kernel))
		read(t, c, idle)
		var trickle sync.WaitGroup
		trickle.Go(func() {
			wantError(t, c, "http://hostile.example/trickle", "sent only 0.0 kB/s for 2m0s", "needs 64 kB/s")
		})
		time.Sleep(time.Minute) //nolint:forbidigo // the clock is that of the bubble
		if got := read(t, c, "http://images.example/ramdisk"); len(got) != large/2 {
			t.Errorf("the ramdisk has %d bytes", len(got))
		}
		read(t, c, idle)
		if asked.Load() != 1 {
			t.Error("the kernel was removed for an image of which one byte has come")
		}
		trickle.Wait()
	})
}

func TestAnnouncedImageThatCannotFitRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		server := carry(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/large" {
				return answer(limit+1, io.LimitReader(endless, limit+1)), nil
			}
			asked.Add(1)
			return answer(8, bytes.NewReader(content(1, 8))), nil
		})
		c := open(t, t.TempDir(), server.transport)
		read(t, c, "http://images.example/kernel")
		wantError(t, c, "http://images.example/large", "does not fit", "boot.cache_size")
		read(t, c, "http://images.example/kernel")
		if asked.Load() != 1 {
			t.Error("the kernel was removed")
		}
	})
}

func TestPortsOfAHostShareItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int32
		server := carry(func(r *http.Request) (*http.Response, error) {
			if r.URL.Hostname() == "images.example" {
				return answer(8, bytes.NewReader(content(1, 8))), nil
			}
			hanging.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c := open(t, t.TempDir(), server.transport)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hosts := []string{"hostile.example", "HOSTILE.example", "hostile.example."}
		for i := range 9 {
			go func() { _, _ = c.Prepare(ctx, fmt.Sprintf("http://%s:%d/kernel", hosts[i%len(hosts)], 8000+i)) }()
		}
		synctest.Wait()
		if n := hanging.Load(); n != 4 {
			t.Errorf("%d downloads from one host at once, want 4", n)
		}
		start := time.Now()
		read(t, c, "http://images.example/kernel")
		if took := time.Since(start); took > 0 {
			t.Errorf("the image of another host came after %s", took)
		}
	})
}

func TestSlowDownloadEnds(t *testing.T) {
	const size = 256 << 10
	for name, tt := range map[string]struct {
		size int
		wait time.Duration
		ends bool
	}{
		"64 kB/s":                       {size: 64_000, wait: time.Second},
		"63 kB/s":                       {size: 63_000, wait: time.Second, ends: true},
		"in bursts that are too seldom": {size: size, wait: 20 * time.Second, ends: true},
		"in bursts":                     {size: size, wait: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const whole = 40 << 20 // takes more than ten minutes
				server := carry(func(r *http.Request) (*http.Response, error) {
					return answer(whole, slowly(r.Context(), io.LimitReader(endless, whole), tt.size, tt.wait)), nil
				})
				c := open(t, t.TempDir(), server.transport, func(o *imagecache.Options) { o.Limit = whole })
				if !tt.ends {
					read(t, c, "http://images.example/ramdisk")
					return
				}
				start := time.Now()
				wantError(t, c, "http://images.example/ramdisk", "kB/s for 2m0s, and a download needs 64 kB/s")
				if took := time.Since(start); took > 150*time.Second {
					t.Errorf("ended after %s", took)
				}
			})
		})
	}
}

func TestServerThatSendsAByteForEachConnectionIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		server := carry(func(*http.Request) (*http.Response, error) {
			time.Sleep(29 * time.Second) //nolint:forbidigo // the clock is that of the bubble
			a := answer(limit, io.LimitReader(endless, 1))
			if sent++; sent > 1 {
				a.StatusCode = http.StatusPartialContent
				a.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", sent-1, limit-1, limit))
			}
			return a, nil
		})
		c := open(t, t.TempDir(), server.transport)
		start := time.Now()
		wantError(t, c, "http://images.example/ramdisk", "sent only")
		if took := time.Since(start); took > 4*time.Minute {
			t.Errorf("ended after %s", took)
		}
	})
}

func TestTimeWithoutAServerIsNoSlowness(t *testing.T) {
	const size = 8 << 20
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		server := carry(func(r *http.Request) (*http.Response, error) {
			switch tries++; {
			case tries == 1:
				// The server breaks off after these bytes.
				return answer(size, slowly(r.Context(), io.LimitReader(endless, 1000), 1000, 29*time.Second)), nil
			case tries < 5:
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			a := answer(size-1000, slowly(r.Context(), io.LimitReader(endless, size-1000), 1<<20, time.Second))
			a.StatusCode = http.StatusPartialContent
			a.Header.Set("Content-Range", fmt.Sprintf("bytes 1000-%d/%d", size-1, size))
			return a, nil
		})
		c := open(t, t.TempDir(), server.transport, func(o *imagecache.Options) { o.Limit = size })
		if got := read(t, c, "http://images.example/ramdisk"); len(got) != size || tries != 5 {
			t.Errorf("%d bytes after %d tries", len(got), tries)
		}
	})
}

func TestSlowDownloadGoesOnWhereItEnded(t *testing.T) {
	const size = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		var ranges []string
		server := carry(func(r *http.Request) (*http.Response, error) {
			ranges = append(ranges, r.Header.Get("Range"))
			if len(ranges) == 1 {
				return answer(size, slowly(r.Context(), endless, 1000, 10*time.Second)), nil
			}
			a := answer(size-12000, io.LimitReader(endless, size-12000))
			a.StatusCode = http.StatusPartialContent
			a.Header.Set("Content-Range", fmt.Sprintf("bytes 12000-%d/%d", size-1, size))
			return a, nil
		})
		c := open(t, t.TempDir(), server.transport)
		wantError(t, c, "http://images.example/ramdisk", "sent only 0.1 kB/s")
		time.Sleep(time.Minute) //nolint:forbidigo // the clock is that of the bubble
		if got := read(t, c, "http://images.example/ramdisk"); len(got) != size || ranges[1] != "bytes=12000-" {
			t.Errorf("%d bytes, asked for with %q", len(got), ranges)
		}
	})
}
