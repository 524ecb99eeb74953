// Package fairqueue shares a bounded number of slots among many sources, so that no
// source can keep the others out, however much it asks for.
//
// Two rules do that. Sources that wait are let in in turns, each in the order in which
// its callers came. And a source never holds more slots than remain free: one alone gets
// half of them, two get a third each, and a new one finds some while there are fewer
// sources than slots.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// ErrFull says that too many callers wait, and no source has more of them than the one
// that was refused.
var ErrFull = errors.New("too many requests wait")

// Queue lets the callers of sources in. It is safe for concurrent use.
type Queue[K comparable] struct {
	mu         sync.Mutex
	free       int // slots
	waiting    int // callers of all sources
	maxWaiting int
	sources    map[K]*source[K] // those that hold slots or wait for one
	turns      []*source[K]     // those with waiting callers, the next one first
}

// source is what a source holds and waits for.
type source[K comparable] struct {
	key     K
	held    int
	waiting []chan error // nil lets the caller in, ErrFull sends it away; oldest first
}

// New returns a queue with a number of slots, at least 2, for which at most maxWaiting
// callers wait.
func New[K comparable](slots, maxWaiting int) *Queue[K] {
	return &Queue[K]{free: slots, maxWaiting: maxWaiting, sources: map[K]*source[K]{}}
}

// Busy reports whether a caller of the source would have to wait.
func (q *Queue[K]) Busy(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, known := q.sources[key]
	return known && (len(s.waiting) > 0 || s.held >= q.free) || q.free == 0
}

// TryEnter takes a slot for a source if it can have one at once. The caller calls leave
// when it is done.
func (q *Queue[K]) TryEnter(key K) (leave func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.source(key)
	if len(s.waiting) > 0 || !q.admit(s) {
		q.forget(s)
		return nil, false
	}
	return q.leaver(s), true
}

// Enter takes a slot for a source, and waits for it until ctx ends. The caller calls
// leave when it is done. It returns ErrFull when no more callers may wait. A caller whose
// source has fewer of them takes the place of the one that came last of the source with
// the most, which gets ErrFull then.
func (q *Queue[K]) Enter(ctx context.Context, key K) (leave func(), err error) {
	q.mu.Lock()
	s := q.source(key)
	if len(s.waiting) == 0 && q.admit(s) {
		q.mu.Unlock()
		return q.leaver(s), nil
	}
	turn := q.wait(s)
	q.mu.Unlock()
	if turn == nil {
		return nil, ErrFull
	}
	select {
	case err = <-turn:
	case <-ctx.Done():
		err = q.cancel(s, turn, ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	return q.leaver(s), nil
}

// Full reports whether a caller of the source would be refused.
func (q *Queue[K]) Full(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting < q.maxWaiting {
		return false
	}
	most, waiting := q.longest(), 0
	if s, known := q.sources[key]; known {
		waiting = len(s.waiting)
	}
	return most == nil || len(most.waiting) <= waiting+1
}

// leaver returns the function that gives a slot back, once.
func (q *Queue[K]) leaver(s *source[K]) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		s.held--
		q.free++
		q.letIn()
		q.forget(s)
	})
}

// The methods below need the lock.

func (q *Queue[K]) source(key K) *source[K] {
	s, ok := q.sources[key]
	if !ok {
		s = &source[K]{key: key}
		q.sources[key] = s
	}
	return s
}

// forget drops a source that neither holds nor wants anything.
func (q *Queue[K]) forget(s *source[K]) {
	if s.held == 0 && len(s.waiting) == 0 && q.sources[s.key] == s {
		delete(q.sources, s.key)
	}
}

// admit gives the source a slot, unless it holds as many as are free.
func (q *Queue[K]) admit(s *source[K]) bool {
	if s.held >= q.free {
		return false
	}
	s.held++
	q.free--
	return true
}

// letIn gives slots to the sources that wait for one, in turns.
func (q *Queue[K]) letIn() {
	for i := 0; i < len(q.turns); {
		s := q.turns[i]
		if !q.admit(s) {
			i++ // another source holds less
			continue
		}
		q.end(s, 0, nil)
		if len(s.waiting) > 0 { // behind the others
			q.turns = append(slices.Delete(q.turns, i, i+1), s)
		}
		i = 0
	}
}

// wait makes a caller of the source wait. It returns nil when the caller is refused.
func (q *Queue[K]) wait(s *source[K]) chan error {
	if q.waiting >= q.maxWaiting {
		most := q.longest()
		if most == nil || len(most.waiting) <= len(s.waiting)+1 {
			q.forget(s)
			return nil
		}
		q.end(most, len(most.waiting)-1, ErrFull)
	}
	turn := make(chan error, 1)
	if s.waiting = append(s.waiting, turn); len(s.waiting) == 1 {
		q.turns = append(q.turns, s)
	}
	q.waiting++
	return turn
}

// end tells a caller of the source, by its position, that it waits no longer.
func (q *Queue[K]) end(s *source[K], position int, outcome error) {
	s.waiting[position] <- outcome
	s.waiting = slices.Delete(s.waiting, position, position+1)
	q.waiting--
	if len(s.waiting) == 0 {
		q.turns = slices.DeleteFunc(q.turns, func(other *source[K]) bool { return other == s })
	}
	q.forget(s)
}

// cancel ends the wait of a caller whose context has ended.
func (q *Queue[K]) cancel(s *source[K], turn chan error, cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if position := slices.Index(s.waiting, turn); position >= 0 {
		q.end(s, position, cause)
		return cause
	}
	return <-turn // it was let in or sent away meanwhile
}

// longest returns the source with the most waiting callers, nil when nobody waits.
func (q *Queue[K]) longest() *source[K] {
	if len(q.turns) == 0 {
		return nil
	}
	return slices.MaxFunc(q.turns, func(a, b *source[K]) int { return cmp.Compare(len(a.waiting), len(b.waiting)) })
}

// Hold is what a caller holds of queues: slots while it works, and a place among those
// that wait for others afterwards. The zero value holds nothing. It is used by one
// goroutine at a time.
type Hold struct {
	// Wait takes the place; it reports false when there is no more. Nil means that there
	// always is one.
	Wait func() (leave func(), ok bool)

	leaves []func()
	waits  bool
}

// Add makes the caller hold a slot, until Release or End calls leave.
func (h *Hold) Add(leave func()) { h.leaves = append(h.leaves, leave) }

// End gives back everything.
func (h *Hold) End() {
	for _, leave := range h.leaves {
		leave()
	}
	h.leaves = nil
}

type holdKey struct{}

// With returns a context that carries what a caller holds, for Release.
func With(ctx context.Context, h *Hold) context.Context { return context.WithValue(ctx, holdKey{}, h) }

// Release gives back the slots that the caller of ctx holds, before a wait that is not its
// own work; it goes on without them. It reports false when too many wait already: the
// caller keeps its slots and must not wait.
func Release(ctx context.Context) bool {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	if !ok || h.waits {
		return true
	}
	var leave func()
	if h.Wait != nil {
		if leave, ok = h.Wait(); !ok {
			return false
		}
	}
	h.End()
	h.waits = true
	if leave != nil {
		h.Add(leave)
	}
	return true
}

// Network is what counts as one source of requests from a network.
type Network netip.Prefix

// networkBits is how much of an IPv6 address names the network of a machine, which
// chooses the rest of its address itself (RFC 4291, section 2.5.1).
const networkBits = 64

// NetworkOf returns the source that an address belongs to: the address itself, or the
// network of an IPv6 address. All unknown addresses, the zero Addr, are one source.
func NetworkOf(address netip.Addr) Network {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBits
	}
	network, _ := address.Prefix(bits) // fails for the zero Addr alone
	return Network(network)
}
