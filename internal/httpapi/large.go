package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/internal/fairqueue"
	"github.com/ingot-metal/ingot/internal/node"
)

// Bounds of requests of users that take much memory: pages, inventories and items larger than maxBody, which last until
// the client has read them, and bodies larger than maxBody, which exist in several copies.
const (
	largeAnswers    = 32
	largeBodies     = 4               // one of 64 MiB takes up to five times as much until it is stored
	maxWaitingLarge = 256             // of each
	maxLargeWait    = 5 * time.Second // and how long
)

// largeQueue shares the requests that take much memory among users.
type largeQueue = fairqueue.Queue[string]

var errNoRoom = fmt.Errorf("take memory for a large request: too many others have it: %w", node.ErrBusy)

// enterLarge takes a slot of the queue for the user of a request until leave is called. It
// fails with node.ErrBusy when there is none for too long.
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

// answerSlot is a slot for the answer to one request if that turns out to be large. It does not wait for one: what is
// answered is in memory already.
type answerSlot struct {
	api     *api
	request *http.Request
	leave   func() // nil while there is none
}

// take takes the slot for an answer of a size in bytes, once. It fails with node.ErrBusy when there is none.
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
