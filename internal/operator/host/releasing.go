package host

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/requeue"
)

// releasing releases the node of a host that moves to another cluster. Such a host is paused, and
// carries its status in an annotation for the tools that copy objects.
//
// The release names the annotation by its digest. Only the same host, by namespace and name, in
// another cluster and restored from that very annotation may replace the mark of this host by its
// own; the request that does so fails when the release is gone. There is never more than one pass
// over a host here, so the release follows every request that this operator has made for the host.
// When the pause is over, this operator ends the release in the same way before it makes another
// request. So at most one of the two clusters uses the node.
//
// After the release, an annotation of the host says so. Whoever moves the host waits for it.
type releasing struct {
	owners ownership
	client client.Client
}

// decideRelease returns the node of a paused host and the name of its release, or "" for a host
// that does not move. If the status of the host is still to be restored from the annotation, the
// host may have marked the node that the annotation names already.
func decideRelease(h *v1alpha1.BareMetalHost) (id, release string) {
	text := h.Annotations[v1alpha1.StatusAnnotation]
	if text == "" {
		return "", ""
	}
	moved, err := decodeStatus(text)
	if err != nil || !isNodeID(moved.Provisioning.ID) || !isDeferred(h) && moved.Provisioning.ID != h.Status.Provisioning.ID {
		return "", ""
	}
	return moved.Provisioning.ID, v1alpha1.ReleaseOf(text)
}

func (p releasing) reconcile(ctx context.Context, h *v1alpha1.BareMetalHost) (ctrl.Result, error) {
	id, release := decideRelease(h)
	if release == "" {
		return ctrl.Result{}, nil
	}
	err := p.owners.engine.Release(ctx, id, p.owners.mark(h), release)
	absent := errors.Is(err, provisioner.ErrNotFound) || errors.Is(err, provisioner.ErrNotOwned)
	switch {
	case absent && isDeferred(h): // it has just come, and another cluster may still have to release its node
		return ctrl.Result{}, nil
	case err == nil, absent:
		return p.recordReleased(ctx, h, id, release)
	case isTemporary(err):
		return ctrl.Result{RequeueAfter: requeue.WhileBusy(1, string(h.UID))}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("release node %s, whose host moves: %w", id, err)
	}
}

// recordReleased writes into an annotation that there is nothing left to release. The first pass
// after the pause removes the annotation.
func (p releasing) recordReleased(ctx context.Context, h *v1alpha1.BareMetalHost, id, release string) (ctrl.Result, error) {
	if h.Annotations[v1alpha1.ReleasedAnnotation] == release {
		return ctrl.Result{}, nil
	}
	recorded := h.DeepCopy()
	recorded.Annotations[v1alpha1.ReleasedAnnotation] = release
	err := p.client.Patch(ctx, recorded, locked(h))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: soon}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write annotation %s, because node %s is released: %w", v1alpha1.ReleasedAnnotation, id, err)
	}
	return ctrl.Result{}, nil
}
