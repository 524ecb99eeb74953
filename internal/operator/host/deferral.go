package host

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// deferralLimit is the age up to which a discovered host is not written while the engine
// makes its node available, which takes seconds unless disks are wiped.
const deferralLimit = 15 * time.Second

// decideDeferral is pure. It returns the pause before the next pass when this one need not be
// written: the host was just discovered, and the engine makes its node available. What
// the pass did is in the engine: the node has the mark of the host and shows the request. Its ID
// is in the annotation of the stored host, which is restored by each pass until one is
// written. So a host whose machine becomes available at once is written once, and not
// for each step; one that takes longer is written when it is deferralLimit old.
func decideDeferral(s *scope, err error) time.Duration {
	left := s.host.CreationTimestamp.Add(deferralLimit).Sub(s.now)
	switch {
	case err != nil, !s.restored, s.found == nil, !s.host.DeletionTimestamp.IsZero():
		return 0
	case s.state() != v1alpha1.StatePreparing, s.progress == nil, !s.progress.active:
		return 0
	}
	for _, e := range s.events {
		if e.kind != corev1.EventTypeNormal {
			return 0
		}
	}
	return max(left, 0)
}

// isDeferred reports whether a host waits for its status to be restored, so that its node
// is named by an annotation only.
func isDeferred(h *v1alpha1.BareMetalHost) bool {
	return h.Status.LastUpdated == nil && h.Annotations[v1alpha1.StatusAnnotation] != ""
}
