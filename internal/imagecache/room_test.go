package imagecache_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/internal/imagecache"
)

// reserve is what the cache leaves free on a disk.
const reserve = 1 << 30

// onDisk puts the folder of a cache on a disk of so many bytes that has nothing else.
func onDisk(t *testing.T, dir string, bytes *int64) func(*imagecache.Options) {
	t.Helper()
	return func(o *imagecache.Options) {
		o.Free = func() (int64, error) {
			free := *bytes
			for _, name := range imagesIn(t, dir) {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					return 0, err
				}
				free -= info.Size()
			}
			return free, nil
		}
	}
}

// TestDiskIsLeftToOthers has a disk on which two images are as large as the usable space.
func TestDiskIsLeftToOthers(t *testing.T) {
	const size = limit / 4
	w, dir := newWeb(t), t.TempDir()
	disk := int64(reserve + 2*size + 4<<10)
	c := open(t, dir, onDisk(t, dir, &disk))
	first, second, third := w.set("/1", content(1, size)), w.set("/2", content(2, size)), w.set("/3", content(3, size))
	for _, url := range []string{first, second, third} {
		read(t, c, url)
	}
	asked := len(w.asked())
	read(t, c, third)
	if got := len(w.asked()); got != asked {
		t.Errorf("the newest image was fetched %d times again", got-asked)
	}
}

func TestImageThatDoesNotFitOnTheDiskRemovesNoOther(t *testing.T) {
	const size = limit / 4
	w, dir := newWeb(t), t.TempDir()
	disk := int64(reserve + 5*size/2)
	c := open(t, dir, onDisk(t, dir, &disk))
	first, second := w.set("/1", content(1, size)), w.set("/2", content(2, size))
	read(t, c, first)
	read(t, c, second)
	wantError(t, c, w.set("/large", content(3, 3*size)), dir, "a larger disk")
	if left := imagesIn(t, dir); len(left) != 4 { // with their notes
		t.Errorf("the folder has %q, want both images", left)
	}
}

// TestDiskThatCountsLateWhatWasRemovedKeepsTheOtherImages has a file system that frees blocks after
// a while, as XFS does.
func TestDiskThatCountsLateWhatWasRemovedKeepsTheOtherImages(t *testing.T) {
	const size = limit / 8
	w, dir := newWeb(t), t.TempDir()
	left := int64(reserve + limit)
	c := open(t, dir, func(o *imagecache.Options) { o.Free = func() (int64, error) { return left, nil } })
	for i := range 4 {
		read(t, c, w.set(fmt.Sprintf("/%d", i), content(i, size)))
	}
	left = reserve + size/2
	read(t, c, w.set("/new", content(9, size)))
	if got := imagesIn(t, dir); len(got) != 8 { // with their notes
		t.Errorf("the folder has %q, want that one image made room for the new one", got)
	}
}

// TestLargeImageRemovesNoMoreThanItNeedsOfADiskThatCountsLate has an image whose room is requested
// in several steps.
func TestLargeImageRemovesNoMoreThanItNeedsOfADiskThatCountsLate(t *testing.T) {
	const size = 14 << 20
	for name, countsWrites := range map[string]bool{"what was removed": false, "and what was written": true} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWeb(t), t.TempDir()
			left, counts := int64(2*reserve), false
			written := map[string]int64{} // of each image that ever was in the folder
			free := func() (int64, error) {
				sum := int64(0)
				for _, name := range imagesIn(t, dir) {
					if info, err := os.Stat(filepath.Join(dir, name)); err == nil && filepath.Ext(name) != ".json" {
						name = strings.TrimSuffix(name, filepath.Ext(name))
						written[name] = max(written[name], info.Size())
					}
				}
				for _, bytes := range written {
					sum += bytes
				}
				if !counts {
					return left, nil
				}
				return left - sum, nil
			}
			c := open(t, dir, func(o *imagecache.Options) { o.Free, o.Limit = free, 8*size })
			for i := range 4 {
				read(t, c, w.set(fmt.Sprintf("/%d", i), content(i, size)))
			}
			if left = reserve + 1<<20; countsWrites {
				left, counts = left+4*size, true
			}
			read(t, c, w.set("/new", content(9, size)))
			if got := imagesIn(t, dir); len(got) != 8 { // with their notes
				t.Errorf("the folder has %q, want that one image made room for the new one", got)
			}
		})
	}
}

func TestWhatADiskDoesNotCountForAMinuteIsNotFree(t *testing.T) {
	const large, small = limit / 2, limit / 8
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		left, web := int64(2*reserve), &inMemory{etag: `"a"`, body: content(1, large)}
		c := open(t, dir, web.transport, func(o *imagecache.Options) {
			o.Limit, o.Free = 4*limit, func() (int64, error) { return left, nil }
		})
		want := func(when string, images int) {
			t.Helper()
			if got := imagesIn(t, dir); len(got) != 2*images { // with their notes
				t.Errorf("%s: the folder has %q, want %d images", when, got, images)
			}
		}
		read(t, c, "http://web.example.com/1")
		read(t, c, "http://web.example.com/2")
		left, web.body = reserve, content(2, small)
		read(t, c, "http://web.example.com/3")
		want("of two large ones, one made room", 2)
		read(t, c, "http://web.example.com/4")
		want("there was room for another one", 3)
		time.Sleep(time.Minute) //nolint:forbidigo // the clock is that of the bubble
		read(t, c, "http://web.example.com/5")
		want("after a minute, the other large one made room", 3)
	})
}

// TestCacheThatIsOpenedMakesRoom: on a full disk, the database could not store the work that begins
// a download.
func TestCacheThatIsOpenedMakesRoom(t *testing.T) {
	const size = limit / 4
	for name, change := range map[string]func(o *imagecache.Options, disk *int64){
		"on a disk that others have filled": func(_ *imagecache.Options, disk *int64) { *disk = reserve + size + 4<<10 },
		"below a lower limit":               func(o *imagecache.Options, _ *int64) { o.Limit = size },
	} {
		w, dir, disk := newWeb(t), t.TempDir(), int64(2*reserve)
		newer := content(2, size)
		first, second := w.set("/1", content(1, size)), fmt.Sprintf("%s#sha256=%x", w.set("/2", newer), sha256.Sum256(newer))
		before := open(t, dir)
		read(t, before, first)
		read(t, before, second)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		c := open(t, dir, onDisk(t, dir, &disk), func(o *imagecache.Options) { change(o, &disk) })
		if left := imagesIn(t, dir); len(left) != 2 { // with its note
			t.Errorf("%s: the folder has %q, want one image", name, left)
		}
		read(t, c, second)
		if asked := w.asked(); len(asked) != 2 {
			t.Errorf("%s: requests %q, want that the newer image stayed", name, asked)
		}
	}
}

func TestImagesStayOnADiskThatIsFullWithoutThem(t *testing.T) {
	const size = limit / 4
	w, dir := newWeb(t), t.TempDir()
	before := open(t, dir)
	for i := range 3 {
		read(t, before, w.set(fmt.Sprintf("/%d", i), content(i, size)))
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	disk, logged := int64(reserve-1), &bytes.Buffer{}
	open(t, dir, onDisk(t, dir, &disk), func(o *imagecache.Options) {
		o.Limit, o.Logger = 2*size, slog.New(slog.NewTextHandler(logged, nil))
	})
	if left := imagesIn(t, dir); len(left) != 4 { // with their notes
		t.Errorf("the folder has %q, want the two images that its limit permits", left)
	}
	if !strings.Contains(logged.String(), "make room there") {
		t.Errorf("the log has %q, want what to do", logged)
	}
}
