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

// releasing lets the node of a host go that moves to another cluster: it is paused, and
// carries its status in an annotation, as tools that move objects copy it.
//
// The release names the annotation by its digest. Only the same host, by namespace and name,
// in another cluster, which is restored from that very annotation, may put its mark in the place of
// this host's; the request that does so fails when the release is gone. There is never more
// than one pass over a host here, so the release follows every request that this operator
// has made for the host; and before the next one, when the host is not paused any more, it
// ends the release in the same way. So at most one of the two clusters uses the node.
//
// Then it says so in an annotation of the host, which whoever moves it waits for.
type releasing struct {
	owners ownership
	client client.Client
}

// decideRelease is pure: the node of a paused host and its release, or "" when it does not move. A host whose status is
// still to be restored from the annotation may have put its mark into the node that this names.
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
		return p.record(ctx, h, id, release)
	case isTemporary(err):
		return ctrl.Result{RequeueAfter: requeue.WhileBusy(1, string(h.UID))}, nil
	default:
		return ctrl.Result{}, fmt.Errorf("release node %s, whose host moves: %w", id, err)
	}
}

// record writes that there is nothing left to release. The first pass after the pause removes it.
func (p releasing) record(ctx context.Context, h *v1alpha1.BareMetalHost, id, release string) (ctrl.Result, error) {
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
