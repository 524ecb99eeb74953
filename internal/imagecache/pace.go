package imagecache

import (
	"fmt"
	"time"
)

// A download ends if it is slower than minPace on average over slowWithin. Otherwise a server that
// sends a byte now and then would take a place from others for as long as a download may last.
const (
	minPace    = 64_000 // bytes per second
	slowWithin = 2 * time.Minute
)

// slowError means that a server sent only so many bytes per second.
type slowError int64

func (e slowError) Error() string {
	return fmt.Sprintf("the server sent only %.1f kB/s for %s, and a download needs %d kB/s: see to a faster server or network", float64(e)/1000, slowWithin, minPace/1000)
}

// pace measures how fast the bytes of a download arrive, over all its tries.
type pace struct {
	since time.Time // start of the current span of slowWithin; zero before the first span
	bytes int64     // bytes that arrived since
}

// begin starts the measurement. It is called when bytes may arrive.
func (p *pace) begin() {
	if p.since.IsZero() {
		p.since = time.Now()
	}
}

// skip leaves out a time in which there was no server.
func (p *pace) skip(d time.Duration) {
	if !p.since.IsZero() {
		p.since = p.since.Add(d)
	}
}

// add counts bytes. At the end of a span it returns a slowError if too few have arrived.
func (p *pace) add(n int) error {
	p.bytes += int64(n)
	took := time.Since(p.since)
	if took < slowWithin {
		return nil
	}
	perSecond := int64(float64(p.bytes) / took.Seconds())
	if perSecond < minPace {
		return slowError(perSecond)
	}
	*p = pace{since: time.Now()}
	return nil
}
