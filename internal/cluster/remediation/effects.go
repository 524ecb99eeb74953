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
	m, status := s.remediation, &s.remediation.Status
	switch a {
	case addFinalizer:
		return r.patch(ctx, m, func() { controllerutil.AddFinalizer(m, v1beta2.RemediationFinalizer) })
	case removeFinalizer:
		return r.patch(ctx, m, func() { controllerutil.RemoveFinalizer(m, v1beta2.RemediationFinalizer) })
	case begin:
		now := metav1.NewTime(s.now)
		return r.patchStatus(ctx, m, func() {
			if status.Phase == v1beta2.RemediationWaiting { // the first attempt is no retry
				status.RetryCount++
			}
			status.Phase, status.LastRemediated, status.ReleasedAt = v1beta2.RemediationRunning, &now, nil
		})
	case release, releaseAnew:
		now := metav1.NewTime(s.now)
		return r.patchStatus(ctx, m, func() { status.ReleasedAt = &now })
	case awaitHealth:
		return r.patchStatus(ctx, m, func() {
			status.Phase = v1beta2.RemediationWaiting
			s.setCondition(waitsForHealth(s)) // not what was shown in an earlier attempt
		})
	case extend:
		now := metav1.NewTime(s.now)
		return r.patchStatus(ctx, m, func() {
			status.ReleasedAt = &now
			s.setCondition(waitsForHealthCheck(s))
		})
	case handOver:
		return r.patchStatus(ctx, m, func() { status.Phase = v1beta2.RemediationDeletingMachine })
	case fail:
		return r.patchStatus(ctx, m, func() { status.Phase = v1beta2.RemediationFailed })
	case reopen:
		return r.patchStatus(ctx, m, func() {
			status.Phase = ""
			// The condition says that there is no host.
			meta.RemoveStatusCondition(&status.Conditions, v1beta2.ProgressingCondition)
		})
	case setHold:
		return r.setHold(ctx, s)
	case removeHold:
		return r.removeHold(ctx, s)
	case markHost:
		return r.patch(ctx, s.host, func() { annotate(s.host, v1alpha1.UnhealthyAnnotation, markOf(m)) })
	case unmarkHost:
		return r.patch(ctx, s.host, func() { delete(s.host.Annotations, v1alpha1.UnhealthyAnnotation) })
	case tellOwner:
		return r.tellOwner(ctx, s)
	case forgetRequest:
		return r.patchMachineStatus(ctx, s.machine, func() {
			meta.RemoveStatusCondition(&s.machine.Status.Conditions, clusterv1.MachineExternallyRemediatedCondition)
		})
	case request:
		return r.patch(ctx, s.machine, func() {
			annotate(s.machine, v1beta2.ExternalRemediationAnnotation, requestValue(m))
			annotate(s.machine, v1beta2.RequestedByAnnotation, requestValue(m))
		})
	case withdraw:
		return r.withdraw(ctx, s)
	case forgetTaint:
		return r.patch(ctx, m, func() { delete(m.Annotations, v1beta2.OutOfServiceAnnotation) })
	case recordTaint, taintNode, deleteNode, backUpNode, untaintNode, restoreNode, dropBackup:
		return r.doWithNode(ctx, s, a)
	default:
		return nil // it waits
	}
}

// doWithNode makes the writes that are about the Node.
func (r *Reconciler) doWithNode(ctx context.Context, s *scope, a action) error {
	m, node := s.remediation, s.workloadNode
	switch a {
	case recordTaint:
		return r.patch(ctx, m, func() { annotate(m, v1beta2.OutOfServiceAnnotation, node.Name) })
	case taintNode:
		if err := r.isStillOff(ctx, s); err != nil {
			return err
		}
		return patch(ctx, s.workload, node, func() { addTaint(m, node) })
	case untaintNode:
		return patch(ctx, s.workload, node, func() { removeTaint(node) })
	case backUpNode:
		return r.patch(ctx, m, func() { backUp(m, node) })
	case deleteNode:
		if err := r.isStillOff(ctx, s); err != nil {
			return err
		}
		if err := s.workload.Delete(ctx, node, client.Preconditions{UID: &node.UID}); err != nil {
			return fmt.Errorf("delete Node %s: %w", node.Name, err)
		}
		return nil
	case restoreNode:
		return patch(ctx, s.workload, node, func() { putBack(m, node) })
	default: // dropBackup
		return r.patch(ctx, m, func() {
			delete(m.Annotations, v1beta2.NodeLabelsBackupAnnotation)
			delete(m.Annotations, v1beta2.NodeAnnotationsBackupAnnotation)
		})
	}
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
			Message:            "Waiting for remediation. " + s.givenUp(),
			LastTransitionTime: metav1.NewTime(s.now),
		})
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
