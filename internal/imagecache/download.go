package imagecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"time"
)

// Limits of downloads.
const (
	downloadWithin = time.Hour        // a whole download
	stallWithin    = 30 * time.Second // without a byte
	checkWithin    = 5 * time.Second  // without an answer, when the image is in the cache
	maxTries       = 5                // in a row that receive no byte
	firstPause     = time.Second      // before the second try; it doubles
	roomStep       = 4 << 20          // bytes for which room is reserved at a time
	syncEvery      = 64 << 20         // bytes after which a part is synced to the disk
)

// finalError is a failure that another try would not change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func final(format string, args ...any) error { return finalError{fmt.Errorf(format, args...)} }

// download is the download of one image, or the check whether it has changed.
type download struct {
	source
	cache *Cache
	done  chan struct{} // closed at the end of the download; fields of the cache then tell its outcome
	have  *note         // note of the image in the cache; nil if there is none
	held  int64         // bytes of reserved room, at least size
	pace  pace
	// unchanged says that the server has confirmed the image in the cache.
	unchanged bool
	// file is the part. It has size bytes of the image that the note part describes.
	file *os.File
	size int64
	part note
	// content is the SHA-256 of these bytes. sum is the hash for the URL's checksum, nil if the URL
	// has none. Both are nil before a byte was read.
	content, sum hash.Hash
}

// begin starts the download of an image. The caller holds the lock.
func (c *Cache) begin(s source) *download {
	d := &download{source: s, cache: c, done: make(chan struct{})}
	if k, ok := c.contents.images[s.key]; ok {
		d.have = &k.note
	}
	if k, ok := c.contents.parts[s.key]; ok { // from now on the download holds its bytes
		delete(c.contents.parts, s.key)
		d.size, d.part, d.held = k.size, k.note, k.size
		c.contents.held += k.size
	}
	c.running[s.key] = d
	c.work.Go(func() {
		ctx, cancel := c.lifetime()
		defer cancel()
		c.finish(d, d.run(ctx))
	})
	return d
}

// waitLimit returns the limit for a wait for a turn or an answer. If the image is in the cache it
// is used anyway, so callers need not wait for long.
func (d *download) waitLimit(usual time.Duration) time.Duration {
	if d.have != nil {
		return checkWithin
	}
	return usual
}

// enter waits for the turn of a download.
func (d *download) enter(ctx context.Context) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, d.waitLimit(downloadWithin))
	defer cancel()
	leave, err = d.cache.slots.Enter(wait, d.server())
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ended(ctx)
	case err != nil:
		return nil, errors.New("too many images are being fetched")
	}
	return leave, nil
}

// run downloads the image, in as many tries as are necessary.
func (d *download) run(ctx context.Context) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for fruitless := 0; ; {
		began, before := time.Now(), d.size
		err := d.try(ctx)
		var over finalError
		var slow slowError
		switch {
		case err == nil, errors.As(err, &over), errors.As(err, &slow):
			return err
		case ctx.Err() != nil:
			return ended(ctx)
		case d.have != nil && d.size == 0:
			return err // the image in the cache is used
		case isFull(err):
			return final("the disk of the folder %s is full: make room there, or set boot.cache_size lower", d.cache.contents.folder.dir)
		case d.size > before:
			fruitless = 0
		}
		if fruitless++; fruitless == maxTries {
			return err
		}
		pause := time.NewTimer(firstPause << (fruitless - 1))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ended(ctx)
		}
		if d.size <= before {
			d.pace.skip(time.Since(began))
		}
	}
}

// ended returns the error of a download whose context has ended.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the download took longer than %s", downloadWithin)
	}
	return errStopped
}

var errStopped = errors.New("the engine was stopped before the download ended")

// try makes one request and stores the bytes that it receives.
func (d *download) try(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := d.waitLimit(stallWithin)
	waiting := time.AfterFunc(limit, func() { cancel(stalledError(limit)) })
	defer waiting.Stop()
	answer, err := d.ask(ctx)
	if err != nil {
		return reason(ctx, err)
	}
	defer answer.Body.Close()
	total, err := d.accept(answer)
	if d.unchanged || err != nil {
		return err
	}
	waiting.Stop() // reading a large part takes time
	if err := d.openPart(); err != nil {
		return err
	}
	defer func() {
		var over finalError
		if err != nil && !errors.As(err, &over) && d.size > d.part.Synced {
			_ = d.sync() // otherwise the next process continues from the last sync
		}
		err = errors.Join(err, d.file.Close())
	}()
	stalled := time.AfterFunc(stallWithin, func() { cancel(stalledError(stallWithin)) })
	defer stalled.Stop()
	if err := d.copy(answer.Body, total, stalled); err != nil {
		return reason(ctx, err)
	}
	if total >= 0 && d.size != total {
		return fmt.Errorf("the server sent %d of %d bytes", d.size, total)
	}
	if d.size == 0 {
		return final("it is empty")
	}
	if err := d.verify(d.sum); err != nil {
		return finalError{err}
	}
	d.part.SHA256 = hex.EncodeToString(d.content.Sum(nil))
	return d.file.Sync()
}

// sync writes the received bytes to the disk, and then notes that the next process may continue
// after them.
func (d *download) sync() error {
	if err := d.file.Sync(); err != nil {
		return err
	}
	d.part.Synced = d.size
	return d.cache.contents.folder.write(d.key+partEnding, d.part)
}

// openPart opens the file of the part, which has d.size bytes, and computes their checksum. It
// writes the note last, because the note would be wrong about bytes of an earlier version.
func (d *download) openPart() (err error) {
	folder := d.cache.contents.folder
	if d.file, err = os.OpenFile(folder.path(d.key+partEnding), os.O_RDWR|os.O_CREATE, ownersOnly); err != nil {
		return err
	}
	err = d.seekEnd()
	if err == nil {
		err = folder.write(d.key+partEnding, d.part)
	}
	if err != nil {
		return errors.Join(err, d.file.Close())
	}
	return nil
}

func (d *download) seekEnd() error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < d.size { // somebody has changed the file
		d.restart(note{})
		return errors.New("the part that was there is gone")
	}
	if err := d.file.Truncate(d.size); err != nil {
		return err
	}
	if d.content != nil { // an earlier try has computed the checksums
		_, err := d.file.Seek(d.size, io.SeekStart)
		return err
	}
	d.content = sha256.New()
	if d.hash != nil {
		d.sum = d.hash()
	}
	_, err = io.Copy(d.checksums(), d.file)
	return err
}

// checksums returns the writer for all bytes of the image.
func (d *download) checksums() io.Writer {
	if d.sum == nil {
		return d.content
	}
	return io.MultiWriter(d.content, d.sum)
}

// copy appends a body to the part. A negative total means that the size is unknown.
func (d *download) copy(body io.Reader, total int64, stalled *time.Timer) error {
	if err := d.room(total, d.cache.contents.fits); err != nil { // before anything is removed for it
		return err
	}
	buffer, checksums := make([]byte, 256<<10), d.checksums()
	d.pace.begin()
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			stalled.Reset(stallWithin)
			if err := d.hold(d.size+int64(n), total); err != nil {
				return err
			}
			if _, err := d.file.Write(buffer[:n]); err != nil {
				return err
			}
			d.size += int64(n)
			_, _ = checksums.Write(buffer[:n]) // never fails, see package hash
			if d.size-d.part.Synced >= syncEvery {
				if err := d.sync(); err != nil {
					return err
				}
			}
		}
		slow := d.pace.add(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case slow != nil:
			return slow
		case err != nil:
			return err
		}
	}
}

// hold reserves room for the first size bytes of an image, and for some more. It does not reserve
// the whole total at once, because a server may announce bytes that it does not send. A negative
// total means that the size is unknown.
func (d *download) hold(size, total int64) error {
	switch {
	case total >= 0 && size > total:
		return fmt.Errorf("the server sends more than the %d bytes that it has announced", total)
	case size <= d.held:
		return nil
	}
	wanted := d.held + roomStep
	if total >= 0 {
		wanted = min(wanted, total)
	}
	if err := d.room(wanted, d.cache.contents.hold); err != nil {
		return err
	}
	d.held = wanted
	return nil
}

// room requests the room that an image of size bytes still needs. ask makes the request.
func (d *download) room(size int64, ask func(more int64) error) error {
	if d.temporary && size > maxTemporary {
		return final("it has more than %d bytes, the limit for files of its kind", int64(maxTemporary))
	}
	d.cache.mu.Lock()
	defer d.cache.mu.Unlock()
	if err := ask(size - d.held); err != nil {
		return finalError{err}
	}
	return nil
}

// finish ends a download for all waiting callers.
func (c *Cache) finish(d *download, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(d.done)
	delete(c.running, d.key)
	c.contents.held -= d.held
	now := time.Now()
	if err == nil && !d.unchanged {
		d.part.Synced, d.part.Temporary = 0, d.temporary // Synced is for parts only
		if err = c.contents.retire(d.key, d.part); err == nil {
			err = c.contents.folder.complete(d.key, d.part)
		}
	}
	image, had := c.contents.images[d.key]
	switch {
	case err == nil && d.unchanged:
		c.removePart(d) // the part of an outdated version
		if had {        // otherwise the image was removed meanwhile, and waiting callers download it again
			image.checked = now
		}
	case err == nil:
		c.contents.images[d.key] = &kept{size: d.size, used: now, checked: now, note: d.part}
		if d.temporary {
			c.sweepLater()
		}
	default:
		c.keepPart(d, err, now)
		if had {
			c.log.Warn("An image could not be checked for changes, the one in the cache is used", "url", d.url.Redacted(), "err", err)
			image.checked = now
			return
		}
		maps.DeleteFunc(c.failed, func(_ string, f failure) bool { return now.Sub(f.at) >= failureHeld })
		c.failed[d.key] = failure{err: err, at: now}
	}
}

// keepPart keeps the bytes of a failed download if a later one can use them. The caller holds the
// lock.
func (c *Cache) keepPart(d *download, err error, now time.Time) {
	var over finalError
	if d.size == 0 || d.part.sameFile() == "" || errors.As(err, &over) {
		c.removePart(d)
		return
	}
	c.contents.parts[d.key] = &kept{size: d.size, used: now, note: d.part}
}

func (c *Cache) removePart(d *download) {
	if err := c.contents.remove(d.key, partEnding, d.size); err != nil {
		c.log.Warn("The part of an image could not be removed", "err", err)
	}
}
