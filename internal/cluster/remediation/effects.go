package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// do makes the write of an action, if it has one. Each write is refused when its object has
// changed since it was read.
func (r *Reconciler) do(ctx context.Context, s *scope, a action) error {
	if do := actions[a].do; do != nil {
		return do(r, ctx, s)
	}
	return nil
}

func (r *Reconciler) addFinalizer(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() { controllerutil.AddFinalizer(s.remediation, v1beta2.RemediationFinalizer) })
}

func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() { controllerutil.RemoveFinalizer(s.remediation, v1beta2.RemediationFinalizer) })
}

func (r *Reconciler) begin(ctx context.Context, s *scope) error {
	now, status := metav1.NewTime(s.now), &s.remediation.Status
	return r.patchStatus(ctx, s.remediation, func() {
		if status.Phase == v1beta2.RemediationWaiting { // the first attempt is no retry
			status.RetryCount++
		}
		status.Phase, status.LastRemediated, status.ReleasedAt = v1beta2.RemediationRunning, &now, nil
	})
}

func (r *Reconciler) release(ctx context.Context, s *scope) error {
	now := metav1.NewTime(s.now)
	return r.patchStatus(ctx, s.remediation, func() { s.remediation.Status.ReleasedAt = &now })
}

func (r *Reconciler) awaitHealth(ctx context.Context, s *scope) error {
	return r.patchStatus(ctx, s.remediation, func() {
		s.remediation.Status.Phase = v1beta2.RemediationWaiting
		s.setCondition(waitsForHealth(s)) // not what was shown in an earlier attempt
	})
}

func (r *Reconciler) extend(ctx context.Context, s *scope) error {
	now := metav1.NewTime(s.now)
	return r.patchStatus(ctx, s.remediation, func() {
		s.remediation.Status.ReleasedAt = &now
		s.setCondition(waitsForHealthCheck(s))
	})
}

func (r *Reconciler) handOver(ctx context.Context, s *scope) error {
	return r.patchStatus(ctx, s.remediation, func() { s.remediation.Status.Phase = v1beta2.RemediationDeletingMachine })
}

func (r *Reconciler) fail(ctx context.Context, s *scope) error {
	return r.patchStatus(ctx, s.remediation, func() { s.remediation.Status.Phase = v1beta2.RemediationFailed })
}

func (r *Reconciler) reopen(ctx context.Context, s *scope) error {
	status := &s.remediation.Status
	return r.patchStatus(ctx, s.remediation, func() {
		status.Phase = ""
		// The condition says that there is no host.
		meta.RemoveStatusCondition(&status.Conditions, v1beta2.ProgressingCondition)
	})
}

func (r *Reconciler) markHost(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.host, func() { annotate(s.host, v1alpha1.UnhealthyAnnotation, markOf(s.remediation)) })
}

func (r *Reconciler) unmarkHost(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.host, func() { delete(s.host.Annotations, v1alpha1.UnhealthyAnnotation) })
}

func (r *Reconciler) recordTaint(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() { annotate(s.remediation, v1beta2.OutOfServiceAnnotation, s.workloadNode.Name) })
}

func (r *Reconciler) forgetTaint(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() { delete(s.remediation.Annotations, v1beta2.OutOfServiceAnnotation) })
}

func (r *Reconciler) taintNode(ctx context.Context, s *scope) error {
	if err := r.isStillOff(ctx, s); err != nil {
		return err
	}
	return patch(ctx, s.workload, s.workloadNode, func() { addTaint(s.remediation, s.workloadNode) })
}

func (r *Reconciler) untaintNode(ctx context.Context, s *scope) error {
	return patch(ctx, s.workload, s.workloadNode, func() { removeTaint(s.workloadNode) })
}

func (r *Reconciler) backUpNode(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() { backUp(s.remediation, s.workloadNode) })
}

func (r *Reconciler) dropBackup(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.remediation, func() {
		delete(s.remediation.Annotations, v1beta2.NodeLabelsBackupAnnotation)
		delete(s.remediation.Annotations, v1beta2.NodeAnnotationsBackupAnnotation)
	})
}

func (r *Reconciler) deleteNode(ctx context.Context, s *scope) error {
	if err := r.isStillOff(ctx, s); err != nil {
		return err
	}
	node := s.workloadNode
	if err := s.workload.Delete(ctx, node, client.Preconditions{UID: &node.UID}); err != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	return nil
}

func (r *Reconciler) restoreNode(ctx context.Context, s *scope) error {
	return patch(ctx, s.workload, s.workloadNode, func() { putBack(s.remediation, s.workloadNode) })
}

// isStillOff returns an error unless the host is still proven to be off and still belongs to the
// machine. Reading the workload cluster took its time, so isStillOff reads the host again.
func (r *Reconciler) isStillOff(ctx context.Context, s *scope) error {
	var h v1alpha1.BareMetalHost
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.host), &h); err != nil {
		return fmt.Errorf("read host %s: %w", s.host.Name, err)
	}
	if h.UID != s.host.UID || !related.Consumes(s.metal3Machine, &h) {
		return fmt.Errorf("host %s is no longer that of Metal3Machine %s", h.Name, s.metal3Machine.Name)
	}
	key := holdKey(s.remediation)
	if err := r.ProvenOff(&h, key, s.host.Annotations[key]); err != nil {
		return fmt.Errorf("host %s is no longer proven to be off: %w", h.Name, err)
	}
	return nil
}

// setHold holds the host off, or gives the hold the value of this attempt.
func (r *Reconciler) setHold(ctx context.Context, s *scope) error {
	m := s.remediation
	var node *corev1.Node
	if s.node == presentNode {
		node = s.workloadNode
	}
	set := func() error {
		return r.patch(ctx, s.host, func() { annotate(s.host, holdKey(m), holdValue(m, node, s.now)) })
	}
	if s.isHeld() {
		return set()
	}
	// If the guard does not set the hold, the next pass says why.
	_, err := r.Guard.Hold(ctx, s.machine, set)
	return err
}

// removeHold removes the holds of one host.
func (r *Reconciler) removeHold(ctx context.Context, s *scope) error {
	held := stray{s.host, []string{holdKey(s.remediation)}}
	if s.stray {
		held = s.strays[0]
	}
	return r.patch(ctx, held.host, func() {
		for _, key := range held.keys {
			delete(held.host.Annotations, key)
		}
	})
}

// request sets the annotation for recovery, and the annotation that says that it is ours.
func (r *Reconciler) request(ctx context.Context, s *scope) error {
	value := requestValue(s.remediation)
	return r.patch(ctx, s.machine, func() {
		annotate(s.machine, v1beta2.ExternalRemediationAnnotation, value)
		annotate(s.machine, v1beta2.RequestedByAnnotation, value)
	})
}

// withdraw removes the annotation for recovery, unless somebody else has set it, and the annotation
// that says that it is ours.
func (r *Reconciler) withdraw(ctx context.Context, s *scope) error {
	return r.patch(ctx, s.machine, func() {
		if s.request != foreignRequest {
			delete(s.machine.Annotations, v1beta2.ExternalRemediationAnnotation)
		}
		delete(s.machine.Annotations, v1beta2.RequestedByAnnotation)
	})
}

// tellOwner sets the condition on which the owner of a Machine replaces it. A MachineHealthCheck
// without a template sets the same condition.
func (r *Reconciler) tellOwner(ctx context.Context, s *scope) error {
	return r.patchMachineStatus(ctx, s.machine, func() {
		meta.SetStatusCondition(&s.machine.Status.Conditions, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason:             clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
			Message:            "Waiting for remediation. " + s.replacementReason(),
			LastTransitionTime: metav1.NewTime(s.now),
		})
	})
}

func (r *Reconciler) forgetRequest(ctx context.Context, s *scope) error {
	return r.patchMachineStatus(ctx, s.machine, func() {
		meta.RemoveStatusCondition(&s.machine.Status.Conditions, clusterv1.MachineExternallyRemediatedCondition)
	})
}

func (r *Reconciler) patchMachineStatus(ctx context.Context, machine *clusterv1.Machine, change func()) error {
	before := machine.DeepCopy()
	change()
	if err := r.Client.Status().Patch(ctx, machine, locked(before)); err != nil {
		return fmt.Errorf("write the status of Machine %s: %w", machine.Name, err)
	}
	return nil
}

func (r *Reconciler) patchStatus(ctx context.Context, m *v1beta2.Metal3Remediation, change func()) error {
	before := m.DeepCopy()
	change()
	if err := r.Client.Status().Patch(ctx, m, locked(before)); err != nil {
		return fmt.Errorf("write the status of Metal3Remediation %s: %w", m.Name, err)
	}
	return nil
}

func (r *Reconciler) patch(ctx context.Context, obj client.Object, change func()) error {
	return patch(ctx, r.Client, obj, change)
}

// patch changes an object at the API server of a client.
func patch(ctx context.Context, c client.Client, obj client.Object, change func()) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copy %T", obj)
	}
	change()
	if err := c.Patch(ctx, obj, locked(before)); err != nil {
		return fmt.Errorf("write %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// locked returns a patch from before that is refused if the object has changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
