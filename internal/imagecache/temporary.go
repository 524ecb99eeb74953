package imagecache

import (
	"context"
	"time"
)

// maxTemporary limits a single temporary image, in bytes.
const maxTemporary = 4 << 30

// PrepareTemporary is Prepare for an image that is needed for a short time, such as a firmware
// file. It is removed when nobody has used it for an hour. It is refused if it has more than 4 GiB.
func (c *Cache) PrepareTemporary(ctx context.Context, text string) (version string, err error) {
	image, err := c.get(ctx, text, true)
	if err != nil {
		return "", err
	}
	return image.Version, image.Close()
}

// sweep removes the temporary images that nobody has used for keepTemporary. It runs again when the
// next image may be due. Images that are being read are not due.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	now, next := time.Now(), time.Duration(0)
	for key, image := range c.contents.images {
		if !image.note.Temporary {
			continue
		}
		left := keepTemporary - now.Sub(image.used)
		if image.users > 0 {
			left = keepTemporary
		}
		if left <= 0 {
			delete(c.contents.images, key)
			if err := c.contents.remove(key, imageEnding, image.size); err != nil {
				c.log.Warn("A temporary image could not be removed", "err", err)
			}
			continue
		}
		if next == 0 || left < next {
			next = left
		}
	}
	c.sweeping = nil
	if next > 0 {
		c.sweeping = time.AfterFunc(next, c.sweep)
	}
}

// sweepLater schedules a sweep after a temporary image was added. The caller holds the lock.
func (c *Cache) sweepLater() {
	if c.sweeping == nil && !c.closed {
		c.sweeping = time.AfterFunc(keepTemporary, c.sweep)
	}
}
