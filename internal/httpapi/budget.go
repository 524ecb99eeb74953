package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of the total size, in bytes, of the bodies of unauthenticated requests that
// are being read and processed. Half of it is what one source may have: of inspections,
// hundreds of usual documents or one of the largest. Growing buffers may take several
// times as much memory until the garbage collector has run. Heartbeats have their own, so
// that no inspection is in their way.
const (
	maxInspectionBytes = 34 << 20
	maxHeartbeatBytes  = 4 << 20
)

// A body that is sent more slowly than slowestBody, in bytes per second on average, may
// be closed once it has lasted for slowBodyGrace.
const (
	slowestBody   = 16 << 10
	slowBodyGrace = 10 * time.Second
)

// longAgo is a deadline that is over.
var longAgo = time.Unix(1, 0)

// bodyBudget bounds the total size of the bodies of one kind of request. It is safe for
// concurrent use.
type bodyBudget struct {
	size int64
	now  func() time.Time
	log  *slog.Logger

	mu      sync.Mutex
	free    int64
	reading map[*budgetedBody]bool
	taken   map[ramdiskSource]int64
}

func newBodyBudget(size int64, now func() time.Time, log *slog.Logger) *bodyBudget {
	return &bodyBudget{size: size, free: size, now: now, log: log, reading: map[*budgetedBody]bool{}, taken: map[ramdiskSource]int64{}}
}

// charge makes a source pay for the body of a request until leave is called. Reading
// beyond the budget fails with node.ErrBusy, which agents retry.
func (b *bodyBudget) charge(w http.ResponseWriter, r *http.Request, source ramdiskSource) (leave func()) {
	body := &budgetedBody{
		ReadCloser: r.Body, budget: b, source: source, sender: r.RemoteAddr, began: b.now(),
		cut: http.NewResponseController(w).SetReadDeadline,
	}
	r.Body = body
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading[body] = true
	return func() { b.leave(body) }
}

func (b *bodyBudget) leave(body *budgetedBody) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, body)
	b.free += body.taken
	if b.taken[body.source] -= body.taken; b.taken[body.source] == 0 {
		delete(b.taken, body.source)
	}
}

// take charges a body for bytes that have arrived. What one source holds never exceeds
// what remains free, so that there is room for others.
func (b *bodyBudget) take(body *budgetedBody, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken[body.source]+n > b.free-n {
		b.closeSlow()
		return false
	}
	b.free -= n
	b.taken[body.source] += n
	body.taken += n
	return true
}

// closeSlow ends the bodies that arrive so slowly that they only keep others out. An
// agent whose post is cut gives up, so that happens only when the budget is exhausted.
// The caller holds the lock.
func (b *bodyBudget) closeSlow() {
	now := b.now()
	for body := range b.reading {
		lasted := now.Sub(body.began)
		if body.closed || lasted < slowBodyGrace || float64(body.taken) >= lasted.Seconds()*slowestBody {
			continue
		}
		body.closed = true
		if err := body.cut(longAgo); err != nil {
			continue // it ends with the read timeout
		}
		b.log.Warn("Closed a request of a ramdisk that arrived too slowly while others found no room",
			"source", body.sender, "bytes", body.taken, "seconds", int(lasted.Seconds()))
	}
}

// budgetedBody is charged as bytes arrive, so that a client cannot exhaust the budget
// by announcing a large body and sending nothing. The lock of the budget guards it.
type budgetedBody struct {
	io.ReadCloser
	budget *bodyBudget
	source ramdiskSource
	sender string // for the log
	began  time.Time
	cut    func(time.Time) error // sets when reading ends
	taken  int64
	closed bool
}

func (b *budgetedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.budget.take(b, int64(n)) {
		return 0, fmt.Errorf("read request of a ramdisk: more than %d bytes are being processed: %w", b.budget.size, node.ErrBusy)
	}
	return n, err
}

// uncharged returns a body that is read to be dropped.
func uncharged(body io.ReadCloser) io.Reader {
	if charged, ok := body.(*budgetedBody); ok {
		return charged.ReadCloser
	}
	return body
}
