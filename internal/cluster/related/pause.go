package related

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// BlockMoveAnnotation makes clusterctl wait before it moves an object. The controller that pauses
// the hosts of the object removes the annotation when the hosts can be moved.
const BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"

// restful are the states in which the engine does nothing with a host, so that it can be paused and
// moved.
var restful = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateNone: true, v1alpha1.StateUnmanaged: true, v1alpha1.StateAvailable: true, v1alpha1.StateReady: true,
	v1alpha1.StateProvisioned: true, v1alpha1.StateExternallyProvisioned: true,
}

// CanPause reports whether a host can be paused now: it is paused already, or the engine does not
// work on it.
func CanPause(h *v1alpha1.BareMetalHost) bool {
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	_, detached := h.Annotations[v1alpha1.DetachedAnnotation]
	detached = detached || h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	return paused || (restful[h.Status.Provisioning.State] || detached) && h.Status.OperationalStatus != v1alpha1.OperationalStatusServicing
}

// Pause pauses a host object, and copies its status into the annotation from which another cluster
// restores it. If somebody else has paused the host, the value of the paused annotation stays, and
// so does the copy of the status, if there is one. A host that was never reconciled in this cluster
// keeps the copy that it came with. A copy made here is updated, because a pass that began before
// the pause may still write the status.
func Pause(h *v1alpha1.BareMetalHost) error {
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	copied, isCopied := h.Annotations[v1alpha1.StatusAnnotation]
	ours := !paused || IsPausedByUs(h)
	if !paused {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PausedAnnotation, v1alpha1.PausedByClusterAPI)
		delete(h.Annotations, v1alpha1.ReleasedAnnotation) // is of an earlier pause
	}
	if isCopied && (!ours || h.Status.LastUpdated == nil) {
		return nil
	}
	status, err := v1alpha1.EncodeStatus(h.Status)
	if err != nil {
		return fmt.Errorf("encode the status of host %s/%s: %w", h.Namespace, h.Name, err)
	}
	if copied != status {
		h.Annotations[v1alpha1.StatusAnnotation] = status
		delete(h.Annotations, v1alpha1.ReleasedAnnotation)
	}
	return nil
}

// CanMove reports whether clusterctl may move a host. The host has to be paused and to have a copy
// of its status, and its operator must have released the engine's node for this copy; without that,
// the host in the other cluster does not get the node. The release is not needed for hosts without
// a node, for hosts that were never reconciled in this cluster, and for hosts of an operator that
// releases no nodes.
func CanMove(h *v1alpha1.BareMetalHost) bool {
	_, paused := h.Annotations[v1alpha1.PausedAnnotation]
	status, copied := h.Annotations[v1alpha1.StatusAnnotation]
	// Only an operator that releases nodes has this condition.
	releases := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.PowerManagementSupportedCondition) != nil
	return paused && copied &&
		(!releases || h.Status.Provisioning.ID == "" || h.Annotations[v1alpha1.ReleasedAnnotation] == v1alpha1.ReleaseOf(status))
}

// IsPausedByUs reports whether a host is paused for its Cluster.
func IsPausedByUs(h *v1alpha1.BareMetalHost) bool {
	return h.Annotations[v1alpha1.PausedAnnotation] == v1alpha1.PausedByClusterAPI
}

// Resume ends the pause of a host object that is paused for its Cluster. The annotation with the
// status stays: the host controller restores the status from it, or removes it.
func Resume(h *v1alpha1.BareMetalHost) {
	if IsPausedByUs(h) {
		delete(h.Annotations, v1alpha1.PausedAnnotation)
	}
}
