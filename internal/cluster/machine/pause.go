package machine

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// pauseHost pauses the host of a paused machine, and then lets clusterctl move the machine. A host
// that the engine works on is left alone until that is done.
func (p *pass) pauseHost(ctx context.Context) (ctrl.Result, error) {
	h, err := p.heldHost(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if h != nil && related.Consumes(p.m, h) {
		if !related.CanPause(h) {
			return ctrl.Result{RequeueAfter: poll}, nil
		}
		if err := p.pause(ctx, h); err != nil {
			p.set(v1beta2.AssociateBareMetalHostCondition, false, reason{v1beta2.PauseAnnotationSetFailedReason, err.Error()})
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { delete(m.Annotations, related.BlockMoveAnnotation) })
}

// pause pauses a host.
func (p *pass) pause(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	paused := h.DeepCopy()
	if err := related.Pause(paused); err != nil {
		return err
	}
	_, err := p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Annotations = paused.Annotations })
	return err
}

// resumeHost ends the pause of the host, has it name the machine by its UID here, and gives it the
// cleaning mode of the machine.
func (p *pass) resumeHost(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	paused := related.IsPausedByUs(h)
	changed, err := p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) {
		consume(h, p.m)
		related.Resume(h)
		clean(h, p.m)
	})
	if err != nil && paused {
		p.notAssociated(v1beta2.PauseAnnotationRemoveFailedReason, "The pause of host %s/%s could not be ended; it is tried again: %v", h.Namespace, h.Name, err)
	}
	return changed, err
}
