package host

import (
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// writes remembers the version of each host that was written last, until the cache has it. A pass
// over an older version would repeat everything, and its write would be refused.
type writes struct{ memo[string] }

func (w *writes) note(h *v1alpha1.BareMetalHost) { w.put(h.UID, h.ResourceVersion) }

// after reports whether the host was written after the given version.
// It forgets versions that the cache has.
func (w *writes) after(h *v1alpha1.BareMetalHost) bool {
	_, after := w.update(h.UID, func(version string, known bool) (string, bool) {
		if !known {
			return "", false
		}
		order, err := resourceversion.CompareResourceVersion(h.ResourceVersion, version)
		return version, err == nil && order < 0
	})
	return after
}
