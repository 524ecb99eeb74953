package machine

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/cluster/related"
)

// restful are the states in which the engine does nothing with a host, so that it can be paused and
// moved.
var restful = map[v1alpha1.ProvisioningState]bool{
	v1alpha1.StateNone: true, v1alpha1.StateUnmanaged: true, v1alpha1.StateAvailable: true, v1alpha1.StateReady: true,
	v1alpha1.StateProvisioned: true, v1alpha1.StateExternallyProvisioned: true,
}

// canPause is pure: it reports whether a host can be paused now.
func canPause(h *v1alpha1.BareMetalHost) bool {
	return (restful[h.Status.Provisioning.State] || isDetached(h)) && h.Status.OperationalStatus != v1alpha1.OperationalStatusServicing
}

// pauseHost pauses the host of a paused machine, and then lets clusterctl move the machine. A host
// that the engine works on is left alone until that is done.
func (p *pass) pauseHost(ctx context.Context) (ctrl.Result, error) {
	var h *v1alpha1.BareMetalHost
	if key, chosen := related.HostName(p.m); chosen {
		var err error
		if h, err = p.readHost(ctx, key); err != nil {
			return ctrl.Result{}, err
		}
	}
	if h != nil && related.Consumes(p.m, h) {
		if !isAnnotated(h, v1alpha1.PausedAnnotation) && !canPause(h) {
			return ctrl.Result{RequeueAfter: poll}, nil
		}
		if err := p.pause(ctx, h); err != nil {
			p.set(v1beta2.AssociateBareMetalHostCondition, false, reason{v1beta2.PauseAnnotationSetFailedReason, err.Error()})
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, p.patchMachine(ctx, func(m *v1beta2.Metal3Machine) { delete(m.Annotations, blockMoveAnnotation) })
}

// pause pauses a host, and copies its status into the annotation from which it is restored in another
// cluster. A host that somebody else has paused keeps the value of the annotation.
func (p *pass) pause(ctx context.Context, h *v1alpha1.BareMetalHost) error {
	status, err := json.Marshal(h.Status)
	if err != nil {
		return fmt.Errorf("encode the status of host %s/%s: %w", h.Namespace, h.Name, err)
	}
	_, err = p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) {
		if !isAnnotated(h, v1alpha1.PausedAnnotation) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PausedAnnotation, v1alpha1.PausedByClusterAPI)
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.StatusAnnotation, string(status))
		}
		if !isAnnotated(h, v1alpha1.StatusAnnotation) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.StatusAnnotation, string(status))
		}
	})
	return err
}

// resume takes the pause of this controller from a host object. The annotation with the status stays:
// the host controller restores it, or removes it.
func resume(h *v1alpha1.BareMetalHost) {
	if h.Annotations[v1alpha1.PausedAnnotation] == v1alpha1.PausedByClusterAPI {
		delete(h.Annotations, v1alpha1.PausedAnnotation)
	}
}

// resumeHost ends the pause of the host, and gives it the cleaning mode of the machine.
func (p *pass) resumeHost(ctx context.Context, h *v1alpha1.BareMetalHost) (*v1alpha1.BareMetalHost, error) {
	paused := h.Annotations[v1alpha1.PausedAnnotation] == v1alpha1.PausedByClusterAPI
	changed, err := p.patchHost(ctx, h, func(h *v1alpha1.BareMetalHost) {
		resume(h)
		clean(h, p.m)
	})
	if err != nil && paused {
		p.notAssociated(v1beta2.PauseAnnotationRemoveFailedReason, "The pause of host %s/%s could not be ended; it is tried again: %v", h.Namespace, h.Name, err)
	}
	return changed, err
}
