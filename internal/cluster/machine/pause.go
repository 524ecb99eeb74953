package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// pauseHost pauses the host of a paused machine, and lets clusterctl move the machine when the
// operator of the host has released the engine's node. A host that the engine works on is left
// alone until the work is done.
func (p *pass) pauseHost(ctx context.Context) (ctrl.Result, error) {
	h, err := p.heldHost(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	held := h != nil && related.Consumes(p.m, h)
	if !p.m.DeletionTimestamp.IsZero() && (!held || !isSpecified(h)) {
		// In the other cluster, clusterctl would create it as a machine that is not being deleted
		// and has lost its host.
		p.set(v1beta2.PausedCondition, true, reason{v1beta2.PausedReason, "The Cluster or the Metal3Machine is paused. " +
			"It cannot be moved, because it is being deleted and has given its host back: end the pause, and move when it is gone."})
		return ctrl.Result{}, p.blockMove(ctx)
	}
	if held {
		if !related.CanPause(h) {
			p.notMovable("it is in state %q", h.Status.Provisioning.State)
			return ctrl.Result{RequeueAfter: poll}, nil
		}
		if h, err = p.pause(ctx, h); err != nil {
			if !apierrors.IsConflict(err) {
				p.set(v1beta2.AssociateBareMetalHostCondition, false, reason{v1beta2.PauseAnnotationSetFailedReason, err.Error()})
			}
			return ctrl.Result{}, err
		}
		if c := meta.FindStatusCondition(p.m.Status.Conditions, v1beta2.AssociateBareMetalHostCondition); c != nil && c.Reason == v1beta2.PauseAnnotationSetFailedReason {
			p.associated(v1beta2.AssociateBareMetalHostSuccessReason, h.Namespace+"/"+h.Name)
		}
		if !related.CanMove(h) {
			p.notMovable("its annotation %s is not yet the SHA-256 of its annotation %s, with which its operator says that the engine's node is released", v1alpha1.ReleasedAnnotation, v1alpha1.StatusAnnotation)
			return ctrl.Result{RequeueAfter: poll}, nil
		}
	}
	return ctrl.Result{}, p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { delete(m.Annotations, related.BlockMoveAnnotation) })
}

// blockMove makes clusterctl wait before it moves the machine.
func (p *pass) blockMove(ctx context.Context) error {
	return p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, related.BlockMoveAnnotation, "")
	})
}

// notMovable says why clusterctl has to wait for a paused machine.
func (p *pass) notMovable(format string, args ...any) {
	const paused = "The Cluster or the Metal3Machine is paused. It cannot be moved yet because of its host: "
	p.set(v1beta2.PausedCondition, true, reason{v1beta2.PausedReason, paused + fmt.Sprintf(format, args...) + "."})
}

// pause pauses a host.
func (p *pass) pause(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	paused := h.DeepCopy()
	if err := related.Pause(paused); err != nil {
		return nil, err
	}
	return p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Annotations = paused.Annotations })
}

// resumeHost ends the pause of the host, makes the host name the machine by its UID in this
// cluster, and gives the host the cleaning mode of the machine.
func (p *pass) resumeHost(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	paused := related.IsPausedByUs(h)
	changed, err := p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) {
		consume(h, p.m)
		related.Resume(h)
		clean(h, p.m.Spec.AutomatedCleaningMode)
	})
	if err != nil && paused && !apierrors.IsConflict(err) {
		p.notAssociated(v1beta2.PauseAnnotationRemoveFailedReason, "The pause of host %s/%s could not be ended; it is tried again: %v", h.Namespace, h.Name, err)
	}
	return changed, err
}
