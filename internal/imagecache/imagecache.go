// Package imagecache fetches kernels, ramdisks and ISO images from web servers. It keeps them in a
// folder of limited size, from which the boot service serves them.
//
// An image is identified by its URL. The URL may end with a checksum, #sha256=… or #sha512=…, which
// is verified before anybody gets the image. Without a checksum, the server is asked at most once a
// minute whether the image has changed. If the server does not answer, the image is used as it is.
// The previous version stays for readers that have begun with it, see [Cache.GetVersion]. Many
// callers share one download. A download that breaks off continues where it ended, also after a
// restart of the process.
//
// Only http and https are supported, and redirects may not lead to other schemes. Images of the
// scheme file are read in place, below one configured folder.
package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
)

// Times of the cache.
const (
	keepTemporary = time.Hour // after its last use

	checkEvery  = time.Minute      // how long an image without checksum is taken for current
	failureHeld = 10 * time.Second // how long callers get the same error without another download
)

// Options say where images are kept.
type Options struct {
	Dir   string // folder of the cache; made when it does not exist
	Limit int64  // bytes of all images together, and so of a single one
	// Free returns how many bytes the file system of Dir has left; nil asks it.
	Free func() (int64, error)
	// FileRoot is the folder below which images of the scheme file may be; empty means
	// that there are none.
	FileRoot string
	// Transport carries the requests; nil means the usual one, with the proxy of the
	// environment.
	Transport http.RoundTripper
	Logger    *slog.Logger
}

// Cache is the cache of images. It is safe for concurrent use.
type Cache struct {
	client *http.Client
	root   *os.Root // nil when no file may be read
	prefix string   // of the paths below root
	log    *slog.Logger
	stop   context.CancelFunc
	// lifetime returns the context of a download, which stop ends.
	lifetime func() (context.Context, context.CancelFunc)
	work     sync.WaitGroup
	slots    *fairqueue.Queue[string] // limits downloads at once, with turns by host

	mu       sync.Mutex
	sweeping *time.Timer // timer to remove temporary images; nil if there are none
	closed   bool
	contents *contents
	running  map[string]*download
	failed   map[string]failure

	verifying sync.Mutex
	verified  map[string]fs.FileInfo // files of the scheme file as they were when verified, by key
}

// failure is the error of the last download of an image.
type failure struct {
	err error
	at  time.Time
}

// Image is an image that can be read. It stays in the cache until it is closed.
type Image struct {
	*os.File
	Modified time.Time
	// Version distinguishes the content of the image from other content of the same URL. It is
	// empty if the version is not known.
	Version string
	release func()
}

// Close ends the use of the image.
func (i *Image) Close() error {
	i.release()
	return i.File.Close()
}

// Limits of the downloads of all callers.
const (
	maxDownloads = 8    // at once; a host never has more than remain free for others
	maxWaiting   = 1024 // downloads that wait for their turn
)

// Open opens the cache with everything that an earlier process has left in it. It fails if the
// folder cannot be used, or if another process uses it.
func Open(o Options) (*Cache, error) {
	c := &Cache{
		client: newClient(o.Transport), log: o.Logger, slots: fairqueue.New[string](maxDownloads, maxWaiting),
		running: map[string]*download{}, failed: map[string]failure{}, verified: map[string]fs.FileInfo{},
	}
	folder, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Free == nil {
		o.Free = folder.free
	}
	if c.contents, err = newContents(folder, o.Limit, o.Free); err == nil && o.FileRoot != "" {
		if c.prefix, err = filepath.Abs(o.FileRoot); err == nil {
			c.root, err = os.OpenRoot(o.FileRoot)
		}
	}
	if err != nil {
		_ = folder.lock.Close() // nothing was written
		return nil, fmt.Errorf("open the cache of images: %w", err)
	}
	// Make room now: on a full disk, the database could not store the work that begins a download,
	// and it is downloads that make room.
	if err := c.contents.tidy(); err != nil {
		c.log.Warn("The images in the cache do not leave enough room", "err", err)
	}
	life, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.lifetime = func() (context.Context, context.CancelFunc) { return context.WithTimeout(life, downloadWithin) }
	c.sweep()
	return c, nil
}

// Close ends all downloads and gives the folder back. The bytes downloaded so far are kept.
func (c *Cache) Close() error {
	c.stop()
	c.mu.Lock()
	c.closed = true
	if c.sweeping != nil {
		c.sweeping.Stop()
	}
	c.mu.Unlock()
	c.work.Wait()
	var errs []error
	if c.root != nil {
		errs = append(errs, c.root.Close())
	}
	return errors.Join(append(errs, c.contents.folder.lock.Close())...)
}

// CheckURL returns what is wrong with the URL of an image for every cache. The text is the end of a
// sentence about the URL.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

// Check returns what is wrong with the URL of an image for this cache. The text is the end of a
// sentence about the URL. Check asks no server.
func (c *Cache) Check(text string) error {
	s, err := parse(text)
	if err == nil && s.url.Scheme == "file" {
		_, err = c.below(s)
	}
	return err
}

// Prepare fetches an image into the cache and returns its version, see [Cache.GetVersion]. It
// returns the error of ctx if the download takes longer than ctx; the download then continues.
func (c *Cache) Prepare(ctx context.Context, text string) (version string, err error) {
	image, err := c.Get(ctx, text)
	if err != nil {
		return "", err
	}
	return image.Version, image.Close()
}

// errChanged means that the image has another version now.
var errChanged = errors.New("the image has changed since this boot began: begin it again")

// GetVersion is Get for a reader that has read a part of the image, or another image that belongs
// to it. It returns the given version, or an error if only another version is left. An empty
// version means any.
func (c *Cache) GetVersion(ctx context.Context, text, version string) (*Image, error) {
	if image, err := c.lendVersion(text, version); image != nil || err != nil {
		return image, err
	}
	image, err := c.Get(ctx, text)
	if err != nil || version == "" || image.Version == version {
		return image, err
	}
	return nil, errors.Join(errChanged, image.Close())
}

// lendVersion returns a version of an image from the cache without asking its server. It returns
// nil if the version is not in the cache.
func (c *Cache) lendVersion(text, version string) (*Image, error) {
	s, err := parse(text)
	if err != nil || version == "" {
		return nil, nil // Get returns the error
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key, k := c.contents.version(s.key, version)
	if k == nil {
		return nil, nil
	}
	image, err := c.lend(key, k, time.Now())
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed its file
		return nil, nil
	}
	return image, err
}

// maxRounds limits how often a caller starts again because others have changed the cache.
const maxRounds = 3

// Get returns an image, which the caller has to close. It waits for the download until ctx ends.
// The download then continues, because other callers may need it. An error other than that of ctx
// says what a person has to do.
func (c *Cache) Get(ctx context.Context, text string) (*Image, error) {
	return c.get(ctx, text, false)
}

func (c *Cache) get(ctx context.Context, text string, temporary bool) (*Image, error) {
	s, err := parse(text)
	s.temporary = temporary
	if err != nil {
		return nil, fmt.Errorf("the URL %w", err)
	}
	if s.url.Scheme == "file" {
		return c.open(s)
	}
	for range maxRounds {
		image, wait, err := c.next(s)
		if image != nil || err != nil {
			return image, err
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("the cache is too small for the images that are needed at once: set boot.cache_size higher")
}

// next returns the image, or the download to wait for.
func (c *Cache) next(s source) (*Image, *download, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if k, ok := c.contents.images[s.key]; ok && (s.sum != nil || now.Sub(k.checked) < checkEvery) {
		image, err := c.lend(s.key, k, now)
		if !errors.Is(err, fs.ErrNotExist) {
			return image, nil, err
		}
		delete(c.contents.images, s.key) // somebody has removed its file
	}
	if f, ok := c.failed[s.key]; ok {
		if now.Sub(f.at) < failureHeld {
			return nil, nil, f.err
		}
		delete(c.failed, s.key)
	}
	d, ok := c.running[s.key]
	if !ok && c.closed {
		return nil, nil, errStopped
	}
	if !ok {
		d = c.begin(s)
	}
	return nil, d, nil
}

// lend opens an image for a user. The caller holds the lock.
func (c *Cache) lend(key string, k *kept, now time.Time) (*Image, error) {
	file, err := os.Open(c.contents.folder.path(key + imageEnding))
	if err != nil {
		return nil, fmt.Errorf("open an image of the cache: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open an image of the cache: %w", err), file.Close())
	}
	k.users, k.used = k.users+1, now
	c.contents.folder.use(key, now)
	return &Image{File: file, Modified: info.ModTime(), Version: k.note.SHA256, release: sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.users--
	})}, nil
}

// below returns the path of a file relative to the root folder of files.
func (c *Cache) below(s source) (string, error) {
	if c.root == nil {
		return "", errors.New("begins with file://, and boot.file_root does not name a folder from which images may be read")
	}
	path, err := filepath.Rel(c.prefix, filepath.Clean(s.url.Path))
	if err != nil || !filepath.IsLocal(path) {
		return "", fmt.Errorf("is not below the folder %s (boot.file_root)", c.prefix)
	}
	return path, nil
}

// open opens an image of the scheme file. Its checksum is computed at the first use, and again
// after the file has changed.
func (c *Cache) open(s source) (*Image, error) {
	path, err := c.below(s)
	if err != nil {
		return nil, fmt.Errorf("the URL %w", err)
	}
	info, err := c.root.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	file, err := c.root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if err := c.verifyFile(s, file); err != nil {
		return nil, errors.Join(fmt.Errorf("read the file: %w", err), file.Close())
	}
	return &Image{File: file, Modified: info.ModTime(), Version: versionOf(info), release: func() {}}, nil
}

// versionOf returns the version of an image that is read in place.
func versionOf(info fs.FileInfo) string {
	return fmt.Sprintf("file %d %d", info.Size(), info.ModTime().UnixNano())
}

// maxVerified limits how many files are remembered as verified.
const maxVerified = 256

// verifyFile verifies a file, unless it has not changed since it was last verified. Machines read a
// medium in thousands of requests, and anybody can send more, so only one of them computes at a
// time.
func (c *Cache) verifyFile(s source, file *os.File) error {
	if s.sum == nil {
		return nil
	}
	c.verifying.Lock()
	defer c.verifying.Unlock()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if was, ok := c.verified[s.key]; ok && os.SameFile(was, info) && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) {
		return nil
	}
	delete(c.verified, s.key)
	if err := s.verifyFile(file); err != nil {
		return err
	}
	if len(c.verified) >= maxVerified {
		clear(c.verified)
	}
	c.verified[s.key] = info
	return nil
}
