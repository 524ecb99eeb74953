package httpapi

import (
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxRamdiskBytes bounds the total size of the bodies of all unauthenticated requests
// that are being read and processed. Hundreds of usual inspection documents fit, or
// two of the largest. Growing buffers may take several times as much memory until
// the garbage collector has run.
const maxRamdiskBytes = 32 << 20

// withBudget bounds the total size of the bodies of unauthenticated requests by
// maxRamdiskBytes. Reading beyond it fails with node.ErrBusy, which agents retry.
func (a *api) withBudget(next apiHandler) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body := &budgetedBody{ReadCloser: r.Body, budget: a.ramdiskBytes}
		defer body.release()
		r.Body = body
		return next(w, r)
	}
}

// budgetedBody acquires its part of the budget as bytes arrive, so that a client
// cannot exhaust the budget by announcing a large body and sending nothing.
type budgetedBody struct {
	io.ReadCloser
	budget *semaphore.Weighted
	taken  int64
}

func (b *budgetedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.budget.TryAcquire(int64(n)) {
		return 0, fmt.Errorf("read request of a ramdisk: more than %d bytes are being processed: %w", int64(maxRamdiskBytes), node.ErrBusy)
	}
	b.taken += int64(n)
	return n, err
}

func (b *budgetedBody) release() { b.budget.Release(b.taken) }
