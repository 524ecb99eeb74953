package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/loglimit"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits, in bytes, of the total size of the bodies of unauthenticated requests that are being read
// and processed. One source can have at most half of it: for inspections, hundreds of usual
// documents or one of the largest. Growing buffers may take several times as much memory until the
// garbage collector has run. Heartbeats have a limit of their own, so that no inspection can block
// them.
const (
	maxInspectionBytes = 34 << 20
	maxHeartbeatBytes  = 4 << 20
)

// How many lines about closed bodies go to the log, each second and at once.
const (
	closedASecond = 1
	closedAtOnce  = 100
)

// A body that is sent more slowly than slowestBody, in bytes per second on average, may
// be closed once it has lasted for slowBodyGrace.
const (
	slowestBody   = 16 << 10
	slowBodyGrace = 10 * time.Second
)

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// bodyBudget limits the total size of the bodies of one kind of request. It is safe for concurrent
// use.
type bodyBudget struct {
	size int64
	now  func() time.Time
	log  *loglimit.Logger

	mu       sync.Mutex
	free     int64
	arriving map[*budgetedBody]bool // bodies that have not arrived completely
	taken    map[ramdiskSource]int64
}

func newBodyBudget(size int64, now func() time.Time, log *slog.Logger) *bodyBudget {
	return &bodyBudget{size: size, free: size, now: now, log: loglimit.New(log, closedASecond, closedAtOnce), arriving: map[*budgetedBody]bool{}, taken: map[ramdiskSource]int64{}}
}

// charge charges a source for the body of a request until leave is called. When the budget is
// exhausted, reading the body fails with node.ErrBusy. Agents retry after that.
func (b *bodyBudget) charge(w http.ResponseWriter, r *http.Request, source ramdiskSource) (leave func()) {
	body := &budgetedBody{
		ReadCloser: r.Body, budget: b, source: source, sender: r.RemoteAddr, began: b.now(),
		cut: http.NewResponseController(w).SetReadDeadline,
	}
	r.Body = body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ContentLength != 0 {
		b.arriving[body] = true
	}
	return func() { b.leave(body) }
}

func (b *bodyBudget) leave(body *budgetedBody) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.arriving, body)
	b.free += body.taken
	if b.taken[body.source] -= body.taken; b.taken[body.source] == 0 {
		delete(b.taken, body.source)
	}
}

// arrived says that the whole body has arrived.
func (b *bodyBudget) arrived(body *budgetedBody) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.arriving, body)
}

// take charges a body for bytes that have arrived. When there is no room, it closes another body,
// so that the next try may succeed.
func (b *bodyBudget) take(body *budgetedBody, n int64) bool {
	b.mu.Lock()
	if b.fits(b.taken[body.source], n) {
		b.free -= n
		b.taken[body.source] += n
		body.taken += n
		b.mu.Unlock()
		return true
	}
	lines := b.makeRoom(body.source)
	b.mu.Unlock()
	for _, line := range lines {
		b.log.Log(b.now(), slog.LevelWarn, "Closed a request of a ramdisk, because others found no room", line...)
	}
	return false
}

// fits reports whether a source that holds taken bytes may have n more. A source never gets more
// than then remains free, and a quarter of the budget is reserved for sources that hold little.
func (b *bodyBudget) fits(taken, n int64) bool {
	if taken+n <= b.size/128 {
		return n <= b.free
	}
	return taken+n <= b.free-n && b.free-n >= b.size/4
}

// makeRoom closes bodies that keep the source out. It closes those that arrive too slowly, of
// sources that hold at least as much. If there are none, it closes the largest body of a source
// that holds more. An agent whose post is cut gives up, so bodies are closed only when a source
// finds no room. The caller holds the lock, and logs the lines after releasing it.
func (b *bodyBudget) makeRoom(source ramdiskSource) (lines [][]slog.Attr) {
	own, now := b.taken[source], b.now()
	var closed []*budgetedBody
	var largest *budgetedBody
	for body := range b.arriving {
		held := b.taken[body.source]
		if held >= own && body.slow(now) {
			closed = append(closed, body)
		}
		if held > own && (largest == nil || body.taken > largest.taken) {
			largest = body
		}
	}
	if len(closed) == 0 && largest != nil {
		closed = append(closed, largest)
	}
	for _, body := range closed {
		delete(b.arriving, body)
		_ = body.cut(longAgo) // on failure, the body ends with the read timeout
		lines = append(lines, []slog.Attr{
			slog.String("source", body.sender), slog.Int64("bytes", body.taken), slog.Int("seconds", int(now.Sub(body.began).Seconds())),
		})
	}
	return lines
}

// budgetedBody is charged as its bytes arrive, so that a client cannot exhaust the budget by
// announcing a large body and sending nothing. The lock of the budget guards it.
type budgetedBody struct {
	io.ReadCloser
	budget *bodyBudget
	source ramdiskSource
	sender string // for the log
	began  time.Time
	cut    func(time.Time) error // sets the deadline for reading
	taken  int64
}

func (b *budgetedBody) slow(now time.Time) bool {
	lasted := now.Sub(b.began)
	return lasted >= slowBodyGrace && float64(b.taken) < lasted.Seconds()*slowestBody
}

func (b *budgetedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.budget.take(b, int64(n)) {
		return 0, fmt.Errorf("read request of a ramdisk: others hold what is left of %d bytes: %w", b.budget.size, node.ErrBusy)
	}
	if err != nil {
		b.budget.arrived(b)
	}
	return n, err
}

// uncharged returns a reader of a body that does not charge the budget, for discarding the body.
func uncharged(body io.ReadCloser) io.Reader {
	if charged, ok := body.(*budgetedBody); ok {
		return charged.ReadCloser
	}
	return body
}
