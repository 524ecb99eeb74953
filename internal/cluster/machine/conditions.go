package machine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/internal/node"
)

// maxMessage is the longest message of a condition or an event, in bytes. Some messages contain the
// answer of a workload cluster's API server, which can have any length. A status with a message
// that is too long could not be written.
const maxMessage = 1024

// set sets a condition of the machine.
func (p *pass) set(kind string, ok bool, why reason) {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&p.m.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: why.reason, Message: node.CutTextTo(why.message, maxMessage), ObservedGeneration: p.m.Generation,
	})
}

// isTrue reports whether a condition of the machine is true.
func (p *pass) isTrue(kind string) bool {
	return meta.IsStatusConditionTrue(p.m.Status.Conditions, kind)
}

func (p *pass) setPaused(paused bool) {
	if paused {
		p.set(v1beta2.PausedCondition, true, reason{v1beta2.PausedReason, "The Cluster or the Metal3Machine is paused."})
		return
	}
	p.set(v1beta2.PausedCondition, false, reason{v1beta2.NotPausedReason, ""})
}

// notAssociated says why the machine has no host.
func (p *pass) notAssociated(why, format string, args ...any) {
	p.set(v1beta2.AssociateBareMetalHostCondition, false, reason{why, fmt.Sprintf(format, args...)})
	p.notReady(format, args...)
}

// associated sets the condition that the machine holds a host. The first reason and message, which
// say how the machine got the host, stay.
func (p *pass) associated(why, host string) {
	if c := meta.FindStatusCondition(p.m.Status.Conditions, v1beta2.AssociateBareMetalHostCondition); c != nil && c.Status == metav1.ConditionTrue {
		return
	}
	message := "The machine holds host " + host + "."
	if p.skipped != "" {
		message += " " + p.skipped + "."
	}
	p.set(v1beta2.AssociateBareMetalHostCondition, true, reason{why, message})
}

// noNode sets the condition that says why the Node of the machine is not updated any more. It
// does nothing if the Node never was.
func (p *pass) noNode(message string) {
	if meta.FindStatusCondition(p.m.Status.Conditions, v1beta2.AssociateMetal3MachineMetaDataCondition) != nil {
		p.set(v1beta2.AssociateMetal3MachineMetaDataCondition, false, reason{v1beta2.WaitingForNodeReason, message})
	}
}

// notReady says why the condition Ready is false.
func (p *pass) notReady(format string, args ...any) {
	p.ready, p.why = false, reason{v1beta2.NotReadyReason, fmt.Sprintf(format, args...)}
}

// interrupted says why a pass failed, unless the pass has given a reason already. A machine that
// was ready stays ready, because the pass has seen nothing that contradicts it. A conflict changes
// nothing.
func (p *pass) interrupted(err error) {
	before := meta.FindStatusCondition(p.stored.Conditions, v1beta2.ReadyCondition)
	switch {
	case p.ready || p.why.message != "":
	case before != nil && (before.Status == metav1.ConditionTrue || apierrors.IsConflict(err)):
		p.ready, p.why = before.Status == metav1.ConditionTrue, reason{before.Reason, before.Message}
	case !apierrors.IsConflict(err):
		p.notReady("%v", err)
	}
}

// writeStatus writes the status if it has changed.
func (p *pass) writeStatus(ctx context.Context) error {
	if !p.isTrue(v1beta2.PausedCondition) {
		p.set(v1beta2.ReadyCondition, p.ready, p.why)
	}
	if equality.Semantic.DeepEqual(p.stored, p.m.Status) {
		return nil
	}
	now := metav1.NewTime(p.Now())
	p.m.Status.LastUpdated = &now
	before := p.m.DeepCopy()
	before.Status = p.stored
	err := p.Client.Status().Patch(ctx, p.m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Metal3Machine %s/%s: %w", p.m.Namespace, p.m.Name, err)
	}
	p.stored = *p.m.Status.DeepCopy()
	return nil
}
