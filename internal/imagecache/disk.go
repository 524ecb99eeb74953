package imagecache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files of the folder. An image is KEY.image; until it is complete it is KEY.part. Its previous
// version is KEY-VERSION.image, see retiredKey. Each of them has a note with the same name and
// noteEnding; without it the file is useless.
const (
	imageEnding = ".image"
	partEnding  = ".part"
	noteEnding  = ".json"
	tempEnding  = ".new" // a note that is being written
	lockFile    = "lock"

	ownersOnly = 0o600
)

// ownFiles matches the names of the files of a cache. All other files in the folder belong to
// somebody else, such as lost+found of a file system.
var ownFiles = regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{16})?\.(image|part)(\.json(\.new)?)?$`)

// note is what is known about an image. The time of the note's file is when the image was last
// used.
type note struct {
	ETag         string `json:"etag,omitempty"`          // as the server said
	LastModified string `json:"last_modified,omitempty"` // as the server said
	// Synced is how many bytes of a part are on the disk. After a loss of power a file may be
	// longer, with any content beyond them.
	Synced int64 `json:"synced,omitempty"`
	// SHA256 of a complete image, in hexadecimal digits. Images that earlier releases have fetched
	// have none.
	SHA256 string `json:"sha256,omitempty"`
	// Temporary images are removed when nobody has used them for keepTemporary.
	Temporary bool `json:"temporary,omitempty"`
}

// retiredVersion is how many digits of the version the key of a retired image has.
const retiredVersion = 16

// retiredKey returns the key of a version of an image after the server has a newer one. Boots that
// have begun with the version continue with it.
func retiredKey(key, sha256 string) string {
	return key + "-" + sha256[:min(retiredVersion, len(sha256))]
}

// sameFile returns a value for the header If-Range, with which a server tells whether the rest
// still belongs to the same file (RFC 9110, section 13.1.5). It is empty if the server gave no such
// value.
func (n note) sameFile() string {
	if n.ETag != "" && !strings.HasPrefix(n.ETag, "W/") {
		return n.ETag
	}
	return n.LastModified
}

// differs reports whether two notes are certainly about different versions of an image.
func (n note) differs(other note) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(n.ETag, other.ETag) || differ(n.LastModified, other.LastModified)
}

// maxValidator limits what the note keeps of each header of a server, in bytes.
const maxValidator = 256

// noteOf returns the note for the head of an answer. It leaves out long values, because the server
// might refuse every request that sends them back.
func noteOf(head http.Header) note {
	take := func(key string) string {
		if text := head.Get(key); len(text) <= maxValidator {
			return text
		}
		return ""
	}
	return note{ETag: take("ETag"), LastModified: take("Last-Modified")}
}

// folder has the files of images.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder opens the folder and locks it for this process.
func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of images: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, ownersOnly)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of images: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another process uses the folder of images %s: give this engine another data folder", dir)
		}
		return nil, fmt.Errorf("lock the folder of images %s: %w", dir, err)
	}
	return &folder{dir: dir, lock: lock}, nil
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// stored is a file that an earlier process has left.
type stored struct {
	key  string
	size int64
	used time.Time
	note note
}

// scan lists the images and the parts of images. It removes all other files of a cache.
func (f *folder) scan() (images, parts []stored, err error) {
	files, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list the folder of images: %w", err)
	}
	files = slices.DeleteFunc(files, func(file fs.DirEntry) bool { return file.IsDir() || !ownFiles.MatchString(file.Name()) })
	known := map[string]bool{}
	for _, file := range files {
		name := file.Name()
		ending := filepath.Ext(name)
		if ending != imageEnding && ending != partEnding {
			continue
		}
		s, err := f.read(strings.TrimSuffix(name, ending), ending)
		if err != nil {
			continue // without a note the file is useless
		}
		known[name], known[name+noteEnding] = true, true
		if ending == imageEnding {
			images = append(images, s)
		} else {
			parts = append(parts, s)
		}
	}
	for _, file := range files {
		if !known[file.Name()] {
			if err := os.Remove(f.path(file.Name())); err != nil {
				return nil, nil, fmt.Errorf("clean up the folder of images: %w", err)
			}
		}
	}
	return images, parts, nil
}

func (f *folder) read(key, ending string) (stored, error) {
	s := stored{key: key}
	info, err := os.Stat(f.path(key + ending))
	if err != nil {
		return s, err
	}
	text, err := os.ReadFile(f.path(key + ending + noteEnding))
	if err != nil {
		return s, err
	}
	noted, err := os.Stat(f.path(key + ending + noteEnding))
	if err != nil {
		return s, err
	}
	s.size, s.used = info.Size(), noted.ModTime()
	if err := json.Unmarshal(text, &s.note); err != nil || ending == imageEnding {
		return s, err
	}
	return s, f.cutPart(&s)
}

// cutPart cuts a part to the bytes that are certainly on the disk.
func (f *folder) cutPart(s *stored) error {
	if s.note.Synced <= 0 || s.size < s.note.Synced {
		return errors.New("no byte of it is on the disk for certain")
	}
	s.size = s.note.Synced
	return os.Truncate(f.path(s.key+partEnding), s.size)
}

// write stores a note, whole or not at all.
func (f *folder) write(name string, n note) error {
	if err := f.writeTemp(name, n); err != nil {
		return err
	}
	return f.rename(name+noteEnding+tempEnding, name+noteEnding)
}

// writeTemp stores a note under a temporary name. It becomes the note of an image when it is
// renamed.
func (f *folder) writeTemp(name string, n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path(name+noteEnding+tempEnding), text, ownersOnly)
}

func (f *folder) rename(from, to string) error { return os.Rename(f.path(from), f.path(to)) }

// use records that an image was used now. The record may be lost, because only the order in which
// images are removed depends on it.
func (f *folder) use(key string, now time.Time) {
	_ = os.Chtimes(f.path(key+imageEnding+noteEnding), now, now)
}

// remove removes an image, or the part of one.
func (f *folder) remove(key, ending string) error {
	var errs []error
	for _, name := range []string{key + ending, key + ending + noteEnding} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// complete turns a part that is on disk into the image. If the process dies meanwhile, an image may
// remain without its note. The next process removes it. No image ever has the note of another.
func (f *folder) complete(key string, n note) error {
	image := key + imageEnding
	if err := f.writeTemp(image, n); err != nil {
		return err
	}
	if err := os.Remove(f.path(image + noteEnding)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.rename(key+partEnding, image); err != nil {
		return err
	}
	if err := f.rename(image+noteEnding+tempEnding, image+noteEnding); err != nil {
		return err
	}
	return f.remove(key, partEnding)
}

// retire gives an image the key of its version. If the process dies meanwhile, an image may remain
// without its note. The next process removes it.
func (f *folder) retire(key, retired string) error {
	if err := f.rename(key+imageEnding, retired+imageEnding); err != nil {
		return err
	}
	return f.rename(key+imageEnding+noteEnding, retired+imageEnding+noteEnding)
}

// free returns how many bytes of the file system this process may still use.
func (f *folder) free() (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(f.dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // other systems have other types
}

// isFull reports whether a disk, or the share of it that this process may use, is full.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
