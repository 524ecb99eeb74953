package host

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// deferralLimit is how long the write of a host is put off while the engine makes its node
// available. That takes seconds unless disks are wiped.
const deferralLimit = 15 * time.Second

// decideDeferral returns the pause before the next pass when this pass need not be written, and 0
// when it must be. A pass need not be written when all that happens is that the engine makes the
// node available. The engine has all of it: the node has the mark of the host and shows the
// request. So a host whose machine becomes available at once is written once and not for each step.
// A host that takes longer is written after deferralLimit.
func decideDeferral(s *scope, err error) time.Duration {
	switch {
	case err != nil, !s.host.DeletionTimestamp.IsZero():
		return 0
	case s.state() != v1alpha1.StatePreparing, s.progress == nil, !s.progress.active:
		return 0
	}
	for _, e := range s.events {
		if e.kind != corev1.EventTypeNormal {
			return 0
		}
	}
	switch {
	case s.restored && s.found != nil:
		// The stored host has the ID of the node in its annotation. Each pass restores it from
		// there until one is written.
		return requeue.Left(deferralLimit, s.host.CreationTimestamp.Time, s.now)
	case asksProvideAlone(s):
		return requeue.Left(deferralLimit, s.before.Status.LastUpdated.Time, s.now)
	default:
		return 0
	}
}

// asksProvideAlone reports whether the stored host is being prepared already, and this pass did no
// more than to ask, or wait, for the node to become available.
func asksProvideAlone(s *scope) bool {
	before, record := s.before.Status, s.host.Status.Operation
	tookBMC := s.identity != nil || before.GoodBMC != s.host.Status.GoodBMC
	return !tookBMC && before.LastUpdated != nil && before.Provisioning.State == v1alpha1.StatePreparing && before.Operation.Name == "" &&
		(record.Request == "" || record.Request == askProvide) && record.Failures == 0 && record.QueuedAt == nil && len(s.events) == 0 &&
		equality.Semantic.DeepEqual(s.before.Spec, s.host.Spec) && equality.Semantic.DeepEqual(s.before.ObjectMeta, s.host.ObjectMeta)
}

// isDeferred reports whether the status of a host is still to be restored, so that only an
// annotation names its node.
func isDeferred(h *v1alpha1.BareMetalHost) bool {
	return h.Status.LastUpdated == nil && h.Annotations[v1alpha1.StatusAnnotation] != ""
}
