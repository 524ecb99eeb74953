package preprovisioningimage

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// A missing Secret is looked for again after as long as it has been missing, but not sooner than
// shortestWait and not later than longestWait.
const shortestWait, longestWait = 10 * time.Second, 10 * time.Minute

// decide returns the status of a PreprovisioningImage, and the wait before the next pass; 0 means
// none. secret is nil if the spec names a Secret that does not exist.
func decide(image *v1alpha1.PreprovisioningImage, images Images, secret *v1alpha1.SecretStatus, now time.Time) (v1alpha1.PreprovisioningImageStatus, time.Duration) {
	served, ok := serve(image.Spec, images)
	switch {
	case !ok:
		return refused(image, v1alpha1.ImageConfigurationErrorReason, now, fmt.Sprintf(
			"The host accepts the formats %q, and no image of these is configured; the operator has --deploy-iso for iso and --deploy-ramdisk for initrd",
			image.Spec.AcceptFormats)), 0
	case secret == nil:
		message := fmt.Sprintf("Secret %s with the network configuration does not exist; create it", image.Spec.NetworkDataName)
		return refused(image, v1alpha1.ImageMissingNetworkDataReason, now, message), missingFor(image, now)
	}
	served.NetworkData = *secret
	served.Conditions = conditions(image, now,
		metav1.Condition{Type: v1alpha1.ImageReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ImageSuccessReason, Message: "The image can be used"},
		metav1.Condition{Type: v1alpha1.ImageErrorCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ImageSuccessReason},
	)
	return served, 0
}

// serve chooses an image of an accepted format. It reports whether there is one.
func serve(spec v1alpha1.PreprovisioningImageSpec, images Images) (v1alpha1.PreprovisioningImageStatus, bool) {
	status := v1alpha1.PreprovisioningImageStatus{Architecture: spec.Architecture}
	switch {
	case images.ISO != "" && slices.Contains(spec.AcceptFormats, v1alpha1.ImageFormatISO):
		status.Format, status.ImageURL = v1alpha1.ImageFormatISO, images.ISO
	case images.Ramdisk != "" && slices.Contains(spec.AcceptFormats, v1alpha1.ImageFormatInitrd):
		status.Format, status.ImageURL, status.KernelURL = v1alpha1.ImageFormatInitrd, images.Ramdisk, images.Kernel
	default:
		return status, false
	}
	return status, true
}

// refused returns the status for an image that cannot be served.
func refused(image *v1alpha1.PreprovisioningImage, reason string, now time.Time, message string) v1alpha1.PreprovisioningImageStatus {
	return v1alpha1.PreprovisioningImageStatus{Conditions: conditions(image, now,
		metav1.Condition{Type: v1alpha1.ImageReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message},
		metav1.Condition{Type: v1alpha1.ImageErrorCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message},
	)}
}

// missingFor returns the wait before a missing Secret is looked for again.
func missingFor(image *v1alpha1.PreprovisioningImage, now time.Time) time.Duration {
	failed := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ImageErrorCondition)
	if failed == nil || failed.Status != metav1.ConditionTrue || failed.Reason != v1alpha1.ImageMissingNetworkDataReason {
		return shortestWait
	}
	return min(max(now.Sub(failed.LastTransitionTime.Time), shortestWait), longestWait)
}

// conditions returns the conditions of an image with some of them replaced.
func conditions(image *v1alpha1.PreprovisioningImage, now time.Time, set ...metav1.Condition) []metav1.Condition {
	all := slices.Clone(image.Status.Conditions)
	for _, c := range set {
		c.ObservedGeneration, c.LastTransitionTime = image.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&all, c)
	}
	return all
}
