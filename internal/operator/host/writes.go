package host

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// writes remembers the version of each host that was written last, until the cache has it. A pass
// over an older version would repeat everything, and its write would be refused. It is safe for
// concurrent use.
type writes struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

func (w *writes) put(h *v1alpha1.BareMetalHost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[h.UID] = h.ResourceVersion
}

func (w *writes) forget(host types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, host)
}

// after reports whether the host was written after the given version.
// It forgets versions that the cache has.
func (w *writes) after(h *v1alpha1.BareMetalHost) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	version, known := w.versions[h.UID]
	if !known {
		return false
	}
	if order, err := resourceversion.CompareResourceVersion(h.ResourceVersion, version); err == nil && order < 0 {
		return true
	}
	delete(w.versions, h.UID)
	return false
}
