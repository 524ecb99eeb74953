package firmware

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
)

const (
	// eventValidationFailed is the reason of the event about a spec that is not valid.
	eventValidationFailed = "ValidationFailed"
	// actionValidate is the action of that event.
	actionValidate = "Validate"
	// maxNote is the longest note that the API server accepts. maxMessage bounds the message of a
	// condition. Both are in bytes.
	maxNote, maxMessage = 1024, 2048
)

// setConditions writes a verdict into conditions. It always sets the observed generation, but the
// transition time only when a status flips.
func setConditions(conditions *[]metav1.Condition, v verdict, generation int64, now time.Time) {
	changing := metav1.Condition{
		Type: v1alpha1.ChangeDetectedCondition, Status: metav1.ConditionFalse, Reason: v.determined, Message: node.CutTextTo(v.changingMessage, maxMessage),
	}
	if v.changing {
		changing.Status = metav1.ConditionTrue
	}
	valid := metav1.Condition{
		Type: v1alpha1.ValidCondition, Status: metav1.ConditionTrue, Reason: v.determined, Message: "The machine can be given what spec asks for" + v.leftOut,
	}
	if len(v.invalid) > 0 {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, v.refused, node.CutTextTo(list(v.invalid, "; "), maxMessage-len(v.leftOut))+v.leftOut
	}
	for _, c := range []metav1.Condition{changing, valid} {
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(conditions, c)
	}
}

// isChanging reports whether the condition ChangeDetected is true.
func isChanging(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ChangeDetectedCondition)
}

// publishInvalid publishes an event if an object has become invalid, or is invalid in another way
// than before.
func publishInvalid(recorder events.EventRecorder, obj client.Object, before, after []metav1.Condition) {
	now := meta.FindStatusCondition(after, v1alpha1.ValidCondition)
	if now == nil || now.Status != metav1.ConditionFalse {
		return
	}
	was := meta.FindStatusCondition(before, v1alpha1.ValidCondition)
	if was != nil && was.Status == now.Status && was.Message == now.Message && was.ObservedGeneration == now.ObservedGeneration {
		return
	}
	recorder.Eventf(obj, nil, corev1.EventTypeWarning, eventValidationFailed, actionValidate, "%s", node.CutTextTo(now.Message, maxNote))
}
