package dataimage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// outcome is what has to be written to a DataImage.
type outcome struct {
	// release says that the object is deleted, and that either the machine has nothing left of the
	// image or nothing can be done about it.
	release bool
	// condition is the condition Attached.
	condition metav1.Condition
}

// decide returns the outcome for a DataImage. h is nil if there is no host.
func decide(d *v1alpha1.DataImage, h *v1alpha1.BareMetalHost) outcome {
	deleted := !d.DeletionTimestamp.IsZero()
	if h == nil {
		return outcome{deleted, not(v1alpha1.HostNotFoundReason, "There is no BareMetalHost "+d.Name+" in this namespace")}
	}
	if h.IsPaused() {
		return outcome{false, not(v1alpha1.HostPausedReason, "The host is paused; nothing is attached or detached until it is not")}
	}
	switch {
	case h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached:
		return outcome{deleted, not(v1alpha1.DetachedReason, "The host is detached, so that its drives cannot be reached")}
	case deleted && (isClean(d) || !h.DeletionTimestamp.IsZero()):
		return outcome{release: true}
	default:
		return outcome{false, attached(d, h)}
	}
}

// isClean reports whether the machine has no image and the engine works on none. Metal3's operator
// stores an image without a URL instead of none.
func isClean(d *v1alpha1.DataImage) bool {
	return (d.Status.AttachedImage == nil || d.Status.AttachedImage.URL == "") && d.Status.Request == nil
}

// hasFailed reports whether the wanted image could not be attached, or an image could not be
// detached. Metal3's operator stores an empty error instead of none.
func hasFailed(d *v1alpha1.DataImage) bool {
	failed := d.Status.Error
	return failed != nil && (failed.Count > 0 || failed.Message != "") && (failed.URL == "" || failed.URL == d.Spec.URL)
}

// attached returns the condition for a host that can be reached.
func attached(d *v1alpha1.DataImage, h *v1alpha1.BareMetalHost) metav1.Condition {
	deleted := !d.DeletionTimestamp.IsZero()
	image := d.Status.AttachedImage
	switch {
	case !deleted && image != nil && image.URL == d.Spec.URL && d.Status.Request == nil:
		return condition(metav1.ConditionTrue, v1alpha1.AttachedReason, "The image is in a virtual drive of the machine")
	case hasFailed(d):
		return not(v1alpha1.AttachFailedReason, d.Status.Error.Message)
	case deleted:
		return not(v1alpha1.WaitingForPowerOnReason, "The image is detached before the machine is powered on the next time; "+reboot)
	case !h.HasBMC():
		return not(v1alpha1.NoBMCReason, "The host has no BMC, and so no virtual drives")
	case !inUse[h.Status.Provisioning.State]:
		return not(v1alpha1.WaitingForPowerOnReason, "The host is not provisioned; after that, the image is attached before the machine is powered on the next time")
	default:
		return not(v1alpha1.WaitingForPowerOnReason, "The image is attached before the machine is powered on the next time; "+reboot)
	}
}

const reboot = "to have that now, give the host the annotation " + v1alpha1.RebootAnnotation

// inUse are the states in which hosts get images.
var inUse = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateProvisioned:           true,
	v1alpha1.StateExternallyProvisioned: true,
}

func not(reason, message string) metav1.Condition {
	return condition(metav1.ConditionFalse, reason, message)
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.AttachedCondition, Status: status, Reason: reason, Message: message}
}
