package imagecache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// kept is an image, or the part of one, that takes up room on the disk.
type kept struct {
	size    int64
	used    time.Time
	users   int       // current readers; while there are any, it is not removed
	checked time.Time // when its server last said that it is current
	note    note
}

// contents is what the folder contains. The methods of Cache use it under the cache's lock.
type contents struct {
	folder *folder
	limit  int64 // bytes
	images map[string]*kept
	parts  map[string]*kept // parts that nobody is downloading
	held   int64            // bytes that downloads have written or will write next
	// free returns how many bytes the file system of the folder has left.
	free func() (int64, error)
	// uncounted are removed bytes that free may not count yet. expected is the last answer of free
	// minus the bytes promised since. Bytes that free returns beyond expected are removed bytes
	// that it has begun to count.
	uncounted []removed
	expected  int64
}

// removed are bytes that were removed from the folder.
type removed struct {
	bytes int64
	at    time.Time
}

// countedWithin is how long removed bytes are taken to be free although the file system does not
// count them yet. Some file systems free blocks later; without this, other images would be removed
// in vain.
const countedWithin = time.Minute

// reserve is how many bytes the images leave free on the file system of their folder. The engine's
// database may be on the same file system.
const reserve = 1 << 30

func newContents(f *folder, limit int64, free func() (int64, error)) (*contents, error) {
	images, parts, err := f.scan()
	if err != nil {
		return nil, err
	}
	c := &contents{folder: f, limit: limit, images: map[string]*kept{}, parts: map[string]*kept{}, free: free}
	for _, s := range images {
		c.images[s.key] = &kept{size: s.size, used: s.used, note: s.note}
	}
	for _, s := range parts {
		c.parts[s.key] = &kept{size: s.size, used: s.used, note: s.note}
	}
	return c, nil
}

// retire keeps the version of an image that a new one replaces, for boots that have begun with it.
// It removes the version before that, unless somebody reads it.
func (c *contents) retire(key string, by note) error {
	image, had := c.images[key]
	if !had || image.note.SHA256 == "" || image.note.SHA256 == by.SHA256 {
		return nil
	}
	for other, k := range c.images {
		if strings.HasPrefix(other, key+"-") && k.users == 0 {
			delete(c.images, other)
			if err := c.remove(other, imageEnding, k.size); err != nil {
				return err
			}
		}
	}
	delete(c.images, key)
	retired := retiredKey(key, image.note.SHA256)
	switch err := c.folder.retire(key, retired); {
	case errors.Is(err, fs.ErrNotExist): // somebody has removed its file
		return nil
	case err != nil:
		return err
	}
	c.images[retired] = image
	return nil
}

// version returns a version of an image with its key, or nil if it is not in the cache.
func (c *contents) version(key, version string) (string, *kept) {
	for _, key := range []string{key, retiredKey(key, version)} {
		if k := c.images[key]; k != nil && k.note.SHA256 == version {
			return key, k
		}
	}
	return "", nil
}

// size returns how many bytes are used or promised.
func (c *contents) size() int64 {
	size := c.held
	for _, all := range []map[string]*kept{c.images, c.parts} {
		for _, k := range all {
			size += k.size
		}
	}
	return size
}

// fits returns an error if a download can never have that many more bytes beside the other
// downloads and the reserve.
func (c *contents) fits(more int64) error {
	if more > c.limit-c.held { // a sum could overflow int64, because servers choose what is added
		return fmt.Errorf("it does not fit into the cache of %d bytes beside the images that are being fetched: set boot.cache_size higher", c.limit)
	}
	free, err := c.available()
	for _, all := range []map[string]*kept{c.images, c.parts} {
		for _, k := range all {
			if k.users == 0 {
				free += k.size
			}
		}
	}
	if err == nil && free-more < reserve {
		return fmt.Errorf("the disk of the folder %s is full but for %d bytes, which are left to others: make room there, or give the engine a larger disk",
			c.folder.dir, int64(reserve))
	}
	return nil
}

// tidy makes room in a folder that an earlier process has left. If even removing all unused images
// would not leave the reserve free, the images stay unless they exceed the limit: boots continue
// with them, and others could not be fetched.
func (c *contents) tidy() error {
	if err := c.fits(0); err != nil {
		return errors.Join(err, c.keepLimit(0))
	}
	return c.makeRoom(0)
}

// hold promises more bytes to a download, for which it makes room.
func (c *contents) hold(more int64) error {
	if err := c.fits(more); err != nil {
		return err
	}
	if err := c.makeRoom(more); err != nil {
		return err
	}
	c.held += more
	c.expected -= more
	return nil
}

// makeRoom removes parts and images, in the order of removeOldest, until more bytes fit within the
// limit of the folder and beside the reserve of the disk. A file system that does not tell its free
// space is filled until it is full.
func (c *contents) makeRoom(more int64) error {
	if err := c.keepLimit(more); err != nil {
		return err
	}
	for free, err := c.available(); err == nil && free-more < reserve; free, err = c.available() {
		if err := c.removeOldest(); err != nil {
			return err
		}
	}
	return nil
}

// keepLimit removes parts and images, in the order of removeOldest, until more bytes fit within the
// limit of the folder.
func (c *contents) keepLimit(more int64) error {
	for c.size() > c.limit-more {
		if err := c.removeOldest(); err != nil {
			return err
		}
	}
	return nil
}

// available returns how many bytes the file system has left, including removed bytes that it does
// not count yet.
func (c *contents) available() (int64, error) {
	free, err := c.free()
	if err != nil {
		return 0, err
	}
	counted := max(free-c.expected, 0)
	c.expected = free
	c.uncounted = slices.DeleteFunc(c.uncounted, func(r removed) bool { return time.Since(r.at) >= countedWithin })
	for i := range c.uncounted {
		r := &c.uncounted[i]
		seen := min(counted, r.bytes)
		counted, r.bytes = counted-seen, r.bytes-seen
		free += r.bytes
	}
	return free, nil
}

// remove removes the files of an image, or of the part of one. size is their number of bytes.
func (c *contents) remove(key, ending string, size int64) error {
	_, told := c.available()
	if err := c.folder.remove(key, ending); err != nil {
		return err
	}
	if told == nil {
		c.uncounted = append(c.uncounted, removed{size, time.Now()})
	}
	return nil
}

// removeOldest removes the part that was not used for longest, or, if there are no parts, the
// image. It never removes one that is in use.
func (c *contents) removeOldest() error {
	for _, from := range []struct {
		all    map[string]*kept
		ending string
	}{{c.parts, partEnding}, {c.images, imageEnding}} {
		idle := slices.DeleteFunc(slices.Collect(maps.Keys(from.all)), func(key string) bool { return from.all[key].users > 0 })
		if len(idle) == 0 {
			continue
		}
		oldest := slices.MinFunc(idle, func(a, b string) int {
			return cmp.Or(from.all[a].used.Compare(from.all[b].used), cmp.Compare(a, b))
		})
		size := from.all[oldest].size
		delete(from.all, oldest)
		if err := c.remove(oldest, from.ending, size); err != nil {
			return fmt.Errorf("remove an image that is not in use: %w", err)
		}
		return nil
	}
	return errors.New("all images in the cache are in use: set boot.cache_size higher")
}
