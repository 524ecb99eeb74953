package fencing

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory has the last reason that was told of Machines without a Metal3Machine that could show it. It
// only keeps events from being repeated; after a restart they are told once more. It is
// safe for concurrent use.
type memory struct {
	mu      sync.Mutex
	reasons map[types.NamespacedName]string
}

// swap remembers a reason. It returns the one before, or otherwise when there is none.
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
