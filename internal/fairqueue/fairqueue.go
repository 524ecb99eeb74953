// Package fairqueue shares a limited number of slots among many sources. No source can keep the
// others out, however many requests it sends.
//
// Two rules ensure that. First, waiting sources take turns, and each admits its callers in the
// order in which they came. Second, a source never holds more slots than remain free. So a single
// source gets half of the slots, two get a third each, and a new source finds free slots as long as
// there are fewer sources than slots.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// ErrFull means that too many callers wait, and no source has more waiting callers than the source
// that was refused.
var ErrFull = errors.New("too many requests wait")

// Queue admits the callers of sources. It is safe for concurrent use.
type Queue[K comparable] struct {
	mu         sync.Mutex
	free       int // slots
	waiting    int // waiting callers of all sources
	maxWaiting int
	sources    map[K]*source[K] // sources that hold slots or wait for one
	turns      []*source[K]     // sources with waiting callers, the next one first
}

// source has the slots and the waiting callers of one source.
type source[K comparable] struct {
	key     K
	held    int
	waiting []chan error // nil admits the caller, ErrFull refuses it; oldest first
}

// New returns a queue with a number of slots, at least 2. At most maxWaiting callers wait for them.
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

// TryEnter takes a slot for a source if one is available at once. The caller has to call leave when
// it is done.
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

// Enter takes a slot for a source, and waits for it until ctx ends. The caller has to call leave
// when it is done. When no more callers may wait, Enter returns ErrFull, unless another source has
// more waiting callers. Then the last caller of the source with the most gets ErrFull instead, and
// this caller takes its place.
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

// leaver returns a function that gives a slot back. Only its first call has an effect.
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

// Callers of the methods below hold the lock.

func (q *Queue[K]) source(key K) *source[K] {
	s, ok := q.sources[key]
	if !ok {
		s = &source[K]{key: key}
		q.sources[key] = s
	}
	return s
}

// forget drops a source that neither holds slots nor waits for any.
func (q *Queue[K]) forget(s *source[K]) {
	if s.held == 0 && len(s.waiting) == 0 && q.sources[s.key] == s {
		delete(q.sources, s.key)
	}
}

// admit gives the source a slot, unless the source already holds as many slots as are free.
func (q *Queue[K]) admit(s *source[K]) bool {
	if s.held >= q.free {
		return false
	}
	s.held++
	q.free--
	return true
}

// letIn gives slots to the waiting sources, in turns.
func (q *Queue[K]) letIn() {
	for i := 0; i < len(q.turns); {
		s := q.turns[i]
		if !q.admit(s) {
			i++ // another source may hold fewer slots
			continue
		}
		q.end(s, 0, nil)
		if len(s.waiting) > 0 { // behind the other sources
			q.turns = append(slices.Delete(q.turns, i, i+1), s)
		}
		i = 0
	}
}

// wait makes a caller of the source wait. It returns nil if the caller is refused.
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

// end ends the wait of a caller of the source with an outcome. The caller is given by its position.
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
	return <-turn // the caller was admitted or refused meanwhile
}

// longest returns the source with the most waiting callers, nil when nobody waits.
func (q *Queue[K]) longest() *source[K] {
	if len(q.turns) == 0 {
		return nil
	}
	return slices.MaxFunc(q.turns, func(a, b *source[K]) int { return cmp.Compare(len(a.waiting), len(b.waiting)) })
}

// Hold is what a caller holds of queues: slots while it works, and afterwards a place among the
// callers that wait for work of others. The zero value holds nothing. Only one goroutine may use it
// at a time.
type Hold struct {
	// Wait takes the place among waiting callers. It reports false if there is none left. Nil means
	// that there always is one.
	Wait func() (leave func(), ok bool)

	leaves []func()
	waits  bool
}

// Add records a slot that the caller holds. Release or End calls leave.
func (h *Hold) Add(leave func()) { h.leaves = append(h.leaves, leave) }

// End gives back everything.
func (h *Hold) End() {
	for _, leave := range h.leaves {
		leave()
	}
	h.leaves = nil
}

type holdKey struct{}

// With returns a context that carries the caller's Hold, for Release.
func With(ctx context.Context, h *Hold) context.Context { return context.WithValue(ctx, holdKey{}, h) }

// Release gives back the slots that the caller of ctx holds, before it waits for somebody else's
// work. The caller continues without them. Release reports false if too many callers already wait:
// then the caller keeps its slots and must not wait.
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

// Network identifies a source of requests: a host or a network.
type Network netip.Prefix

// networkBits is how many bits of an IPv6 address are the network of a machine. The machine chooses
// the rest of its address itself (RFC 4291, section 2.5.1).
const networkBits = 64

// NetworkOf returns the source that an address belongs to: an IPv4 address itself, or the network
// of an IPv6 address. All unknown addresses, which are the zero Addr, are one source.
func NetworkOf(address netip.Addr) Network {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = networkBits
	}
	network, _ := address.Prefix(bits) // fails for the zero Addr only
	return Network(network)
}
