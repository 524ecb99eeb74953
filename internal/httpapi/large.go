package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
)

// Limits of users' requests that take much memory. These are answers with pages, inventories and
// items larger than maxBody, which stay in memory until the client has read them, and bodies larger
// than maxBody, which exist in several copies.
const (
	largeAnswers    = 32
	largeBodies     = 4               // a body of 64 MiB takes up to five times as much until it is stored
	maxWaitingLarge = 256             // waiting requests of each kind
	maxLargeWait    = 5 * time.Second // longest wait
)

// largeQueue shares the slots for requests that take much memory among users.
type largeQueue = fairqueue.Queue[string]

var errNoRoom = fmt.Errorf("take memory for a large request: too many others have it: %w", node.ErrBusy)

// enterLarge takes a slot of the queue for the user of a request until leave is called. It fails
// with node.ErrBusy when no slot becomes free within maxLargeWait.
func (a *api) enterLarge(r *http.Request, queue *largeQueue) (leave func(), err error) {
	wait, cancel := context.WithTimeout(r.Context(), maxLargeWait)
	defer cancel()
	if leave, err = queue.Enter(wait, a.user(r)); err == nil {
		return leave, nil
	}
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return nil, errNoRoom
}

// enterLargeBody is enterLarge for the body of a request, if it is large or of unknown size.
func (a *api) enterLargeBody(r *http.Request) (leave func(), err error) {
	if r.ContentLength >= 0 && r.ContentLength <= maxBody {
		return func() {}, nil
	}
	return a.enterLarge(r, a.largeBodies)
}

// answerSlot is a slot for the answer to one request, if the answer turns out to be large. It does
// not wait for a slot, because the answer is in memory already.
type answerSlot struct {
	api     *api
	request *http.Request
	leave   func() // nil without a slot
}

// take takes a slot once, for an answer of a size in bytes. It fails with node.ErrBusy when no slot
// is free.
func (s *answerSlot) take(size int) error {
	if size <= maxBody || s.leave != nil {
		return nil
	}
	var ok bool
	if s.leave, ok = s.api.largeAnswers.TryEnter(s.api.user(s.request)); !ok {
		return errNoRoom
	}
	return nil
}

// end gives the slot back.
func (s *answerSlot) end() {
	if s.leave != nil {
		s.leave()
	}
}
