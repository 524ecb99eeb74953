package httpapi

import (
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/ingot-metal/ingot/internal/node"
)

// maxRamdiskBytes bounds the memory that bodies of unauthenticated requests take
// while they are read and processed, all together. Hundreds of usual inspection
// documents fit, and two of the largest. A buffer that grows, and what is left of it
// until the garbage is collected, may take several times as much.
const maxRamdiskBytes = 32 << 20

// withBudget lets a handler of an unauthenticated request read its body only
// while all such bodies together fit into the budget. What does not fit is
// node.ErrBusy, which agents retry.
func (a *api) withBudget(next apiHandler) apiHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body := &budgetedBody{ReadCloser: r.Body, budget: a.ramdiskBytes}
		defer body.release()
		r.Body = body
		return next(w, r)
	}
}

// budgetedBody takes its part of the budget as bytes arrive, so that announcing
// a large body and sending nothing keeps nobody out.
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
