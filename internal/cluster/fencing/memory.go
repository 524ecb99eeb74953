package fencing

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory keeps the reason that was last told of each Machine that has no Metal3Machine to show it.
// It only keeps events from being repeated. After a restart they are published once more. It is
// safe for concurrent use.
type memory struct {
	mu      sync.Mutex
	reasons map[types.NamespacedName]string
}

// swap stores a reason. It returns the previous reason, or otherwise if there is none.
func (m *memory) swap(machine types.NamespacedName, reason, otherwise string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, known := m.reasons[machine]; known {
		otherwise = before
	}
	m.reasons[machine] = reason
	return otherwise
}

func (m *memory) forget(machine types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reasons, machine)
}
