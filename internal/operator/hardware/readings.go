package hardware

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// maxReadings bounds how many machines are remembered, at about 200 bytes each.
const maxReadings = 1 << 14

// Readings remembers which details this process has read of which machines. Controllers get these
// details from each other by way of objects that others can write. Readings shows whether such
// details are still the same as those that were read. Then they need not be read from the engine
// again.
//
// Readings keeps only a digest of the details. A new process remembers nothing and reads again.
// Readings is safe for concurrent use; nil remembers nothing.
type Readings struct {
	mu   sync.Mutex
	last map[string]reading // by the ID of the node
}

// reading is the digest of the details after an inspection.
type reading struct {
	inspectedAt time.Time
	digest      [sha256.Size]byte
}

// NewReadings returns an empty memory.
func NewReadings() *Readings { return &Readings{last: map[string]reading{}} }

// Put remembers the details that were read of a node whose last inspection ended at inspectedAt.
func (r *Readings) Put(nodeID string, inspectedAt time.Time, details *v1alpha1.HardwareDetails) {
	digest, ok := digestOf(details)
	if r == nil || !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.last[nodeID]; !known && len(r.last) >= maxReadings {
		for other := range r.last { // any
			delete(r.last, other)
			break
		}
	}
	r.last[nodeID] = reading{inspectedAt, digest}
}

// Has reports whether exactly these details were read of the node, and the node has not been
// inspected since. It returns false for engines that do not say when an inspection ended.
func (r *Readings) Has(nodeID string, inspectedAt time.Time, details *v1alpha1.HardwareDetails) bool {
	if r == nil || details == nil || inspectedAt.IsZero() {
		return false
	}
	r.mu.Lock()
	last, known := r.last[nodeID]
	r.mu.Unlock()
	if !known || !last.inspectedAt.Equal(inspectedAt) {
		return false
	}
	digest, ok := digestOf(details)
	return ok && digest == last.digest
}

func digestOf(details *v1alpha1.HardwareDetails) (digest [sha256.Size]byte, ok bool) {
	text, err := json.Marshal(details)
	return sha256.Sum256(text), err == nil && details != nil
}
