//go:build fault

package fault_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// writePoint is a write to an API server, and when the operator is killed there.
type writePoint struct {
	when string // "before" or "after" it is passed on
	name string
}

func (p writePoint) String() string { return fmt.Sprintf("%-6s %s", p.when, p.name) }

// pointsOf returns the two points of a write.
func pointsOf(name string) []writePoint {
	return []writePoint{{"before", name}, {"after", name}}
}

// kills is, for the places where the operator is killed, how often it gets past the place before
// that.
type kills map[writePoint]int

// writes are the writes of one operator, through all of its proxies. The operator is killed at some
// of them.
type writes struct {
	// kill ends the operator, and returns when it has ended.
	kill func()

	mu    sync.Mutex
	names []string // of all writes, in their order
	left  kills    // kills that are still to come
	hit   []writePoint
}

// killAt returns the writes of an operator that is killed at these points.
func killAt(points kills) *writes { return &writes{left: maps.Clone(points)} }

// add notes a write that was asked for.
func (w *writes) add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = append(w.names, name)
}

// take reports whether the operator is to be killed here. It is killed once at each place.
func (w *writes) take(here writePoint) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pass, known := w.left[here]
	if known && pass > 0 {
		w.left[here]--
	}
	if !known || pass > 0 {
		return false
	}
	delete(w.left, here)
	w.hit = append(w.hit, here)
	return true
}

// written returns the names of all writes so far.
func (w *writes) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.names)
}

// killedAt returns the places where the operator was killed so far.
func (w *writes) killedAt() []writePoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hit)
}
