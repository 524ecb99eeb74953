package imagecache_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/imagecache"
)

// readVersion returns the content of a version of an image.
func readVersion(t *testing.T, c *imagecache.Cache, url, version string) ([]byte, error) {
	t.Helper()
	image, err := c.GetVersion(t.Context(), url, version)
	if err != nil {
		return nil, err
	}
	defer func() { _ = image.Close() }()
	return io.ReadAll(image)
}

// TestReaderGetsTheVersionThatItHasBegunWith replaces an image at its server while somebody
// reads it in many requests, and restarts the process.
func TestReaderGetsTheVersionThatItHasBegunWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, server := t.TempDir(), &inMemory{body: content(1, 4096), etag: `"a"`}
		c := open(t, dir, server.transport)
		const url = "http://images.example/kernel"
		begun, err := c.Prepare(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		server.body, server.etag = content(2, 4096), `"b"`
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		now, err := c.Prepare(t.Context(), url)
		if err != nil || now == begun {
			t.Fatalf("the version is still %q, %v", now, err)
		}
		for range 2 {
			for version, want := range map[string][]byte{begun: content(1, 4096), now: content(2, 4096), "": content(2, 4096)} {
				if got, err := readVersion(t, c, url, version); err != nil || !bytes.Equal(got, want) {
					t.Errorf("version %q: %.16q, %v; want %.16q", version, got, err, want)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			c = open(t, dir, server.transport)
		}
	})
}

func TestVersionThatIsGoneIsAnErrorAndNotAnotherVersion(t *testing.T) {
	w := newWeb(t)
	url := w.set("/kernel", content(1, 4096))
	begun, err := open(t, t.TempDir()).Prepare(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	w.set("/kernel", content(2, 4096))
	c := open(t, t.TempDir()) // another engine of the database
	if got, err := readVersion(t, c, url, begun); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("got %.16q, %v; want that the image has changed", got, err)
	}
	w.set("/kernel", content(1, 4096))
	if got, err := readVersion(t, open(t, t.TempDir()), url, begun); err != nil || !bytes.Equal(got, content(1, 4096)) {
		t.Errorf("the same content from the server: %.16q, %v", got, err)
	}
}

func TestVersionBeforeTheLastOneMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, server := t.TempDir(), &inMemory{}
		c := open(t, dir, server.transport)
		for i := range 5 {
			server.body, server.etag = content(i, 4096), string(rune('a'+i))
			if _, err := c.Prepare(t.Context(), "http://images.example/kernel"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		}
		if left := imagesIn(t, dir); len(left) != 4 {
			t.Errorf("the folder has %q, want two versions with their notes", left)
		}
	})
}

func TestFileThatChangesIsNotReadOn(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "kernel")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, t.TempDir(), func(o *imagecache.Options) { o.FileRoot = root })
	write("one", time.Unix(1000, 0))
	begun, err := c.Prepare(t.Context(), "file://"+path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readVersion(t, c, "file://"+path, begun); err != nil || string(got) != "one" {
		t.Errorf("unchanged: %q, %v", got, err)
	}
	write("two", time.Unix(1001, 0))
	if got, err := readVersion(t, c, "file://"+path, begun); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("changed: %q, %v", got, err)
	}
}
