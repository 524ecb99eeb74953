package imagecache_test

import (
	"crypto/sha1"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTemporaryImageIsRemovedAnHourAfterItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, server := t.TempDir(), &inMemory{body: content(1, 4096), etag: `"a"`}
		c := open(t, dir, server.transport)
		const firmware, kernel = "http://images.example/bios.bin", "http://images.example/kernel"
		read(t, c, kernel)
		if _, err := c.PrepareTemporary(t.Context(), firmware); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil { // the next process knows, too
			t.Fatal(err)
		}
		c = open(t, dir, server.transport)
		time.Sleep(50 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		server.down = true
		read(t, c, firmware)         // the BMC
		time.Sleep(50 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		if left := imagesIn(t, dir); len(left) != 4 {
			t.Errorf("while it is used the folder has %q", left)
		}
		time.Sleep(20 * time.Minute) //nolint:forbidigo // the clock is that of the bubble
		synctest.Wait()
		if left := imagesIn(t, dir); len(left) != 2 {
			t.Errorf("after an hour the folder has %q, want the other image", left)
		}
	})
}

func TestTemporaryImageIsBounded(t *testing.T) {
	script := newScript(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(5<<30))
		w.WriteHeader(http.StatusOK)
	})
	c := open(t, t.TempDir())
	if _, err := c.PrepareTemporary(t.Context(), script.URL+"/bios.bin"); err == nil || !strings.Contains(err.Error(), "the limit for files of its kind") {
		t.Errorf("error = %v", err)
	}
}

func TestChecksumsOfFirmwareAreVerified(t *testing.T) {
	w := newWeb(t)
	url := w.set("/bios.bin", content(1, 4096))
	c := open(t, t.TempDir())
	sum := sha1.Sum(content(1, 4096))
	if _, err := c.PrepareTemporary(t.Context(), fmt.Sprintf("%s#sha1=%x", url, sum)); err != nil {
		t.Errorf("the right one: %v", err)
	}
	sum[0]++
	if _, err := c.PrepareTemporary(t.Context(), fmt.Sprintf("%s#sha1=%x", url, sum)); err == nil || !strings.Contains(err.Error(), "its checksum is") {
		t.Errorf("a wrong one: %v", err)
	}
}
