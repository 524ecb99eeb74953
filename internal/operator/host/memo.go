package host

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memo remembers a value for each host, by the UID of the host. It is lost with the process. The
// zero value is empty. It is safe for concurrent use.
type memo[T any] struct {
	mu     sync.Mutex
	values map[types.UID]T
}

// get returns the value of a host, and whether there is one.
func (m *memo[T]) get(host types.UID) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, known := m.values[host]
	return value, known
}

func (m *memo[T]) put(host types.UID, value T) {
	m.update(host, func(T, bool) (T, bool) { return value, true })
}

func (m *memo[T]) forget(host types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, host)
}

// update calls change with the value of a host and whether there is one. The value that change
// returns becomes that of the host; it is forgotten if change returns false. update returns what
// change returned. Nothing else happens to the memo meanwhile.
func (m *memo[T]) update(host types.UID, change func(value T, known bool) (T, bool)) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.values[host]
	value, kept := change(last, known)
	switch {
	case !kept:
		delete(m.values, host)
	case m.values == nil:
		m.values = map[types.UID]T{host: value}
	default:
		m.values[host] = value
	}
	return value, kept
}

// memos are what the reconciler remembers of hosts from one pass to the next.
type memos struct {
	applied        applied
	answers        answers
	hiddenFailures hiddenFailures
	written        writes
	// busy and missing count the answers that the engine is busy with the node, and that it does
	// not find it.
	busy, missing streaks
}

// forget forgets all that is remembered of a host.
func (m *memos) forget(host types.UID) {
	m.applied.forget(host)
	m.answers.forget(host)
	m.hiddenFailures.forget(host)
	m.written.forget(host)
	m.busy.forget(host)
	m.missing.forget(host)
}
