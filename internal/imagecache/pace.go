package imagecache

import (
	"fmt"
	"time"
)

// A download that is slower than minPace on average over slowWithin ends: a server that sends
// a byte now and then would keep its place from others for as long as a download may take.
const (
	minPace    = 64_000 // bytes per second
	slowWithin = 2 * time.Minute
)

// slowError is that a server sent so many bytes in a second.
type slowError int64

func (e slowError) Error() string {
	return fmt.Sprintf("the server sent only %.1f kB/s for %s, and a download needs %d kB/s: see to a faster server or network", float64(e)/1000, slowWithin, minPace/1000)
}

// pace measures how fast the bytes of a download come, over all its tries.
type pace struct {
	since time.Time // when the present span of slowWithin began; zero before the first
	bytes int64     // that came since
}

// begin is called when bytes may come.
func (p *pace) begin() {
	if p.since.IsZero() {
		p.since = time.Now()
	}
}

// skip leaves time out in which there was no server.
func (p *pace) skip(d time.Duration) {
	if !p.since.IsZero() {
		p.since = p.since.Add(d)
	}
}

// add counts bytes. At the end of a span, its error is a slowError when too few have come.
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
