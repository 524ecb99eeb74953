package discovery

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// conflictingWriter refuses its first writes of the status, as if others wrote it all the time.
type conflictingWriter struct {
	statusWriter

	refusals int
}

func (w *conflictingWriter) Status() client.SubResourceWriter { return w }

func (w *conflictingWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if w.refusals > 0 {
		w.refusals--
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("it changed"))
	}
	return w.statusWriter.Patch(ctx, obj, patch, opts...)
}

func TestDeletionIsRecordedWhileManyOthersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakeNodes("n1"), func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Rediscovery = discoveryv1.RediscoveryDeny })
		gone := existingHost("gone", func(h *v1alpha1.BareMetalHost) {
			h.Spec.BootMACAddress = "52:54:00:00:00:01"
			h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n0"}
		})
		writer := &conflictingWriter{statusWriter: statusWriter{api: b.api}, refusals: 15}
		if err := RecordDeletion(t.Context(), b.api, writer, &gone, time.Now()); err != nil {
			t.Fatal(err)
		}
		if n := len(b.api.resource.Status.Tombstones); n != 1 {
			t.Errorf("%d tombstones, want 1", n)
		}
	})
}

func TestDeletionIsRecordedOnlyForHostsOfTheResourcesNamespace(t *testing.T) {
	for what, change := range map[string]func(h *v1alpha1.BareMetalHost){
		"a host of another namespace":     func(h *v1alpha1.BareMetalHost) { h.Namespace = "tenant" },
		"a boot MAC address that is none": func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "x" + h.Spec.BootMACAddress },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t, newFakeNodes("n1"), func(d *discoveryv1.BareMetalHostDiscovery) { d.Spec.Rediscovery = discoveryv1.RediscoveryDeny })
			gone := existingHost("gone", func(h *v1alpha1.BareMetalHost) {
				h.Spec.BootMACAddress = "52:54:00:00:00:01"
				h.Annotations = map[string]string{v1alpha1.DiscoverySourceAnnotation: "metal/racks/n0"}
				change(h)
			})
			if err := RecordDeletion(t.Context(), b.api, b.api, &gone, time.Now()); err != nil {
				t.Fatal(err)
			}
			if _, ok := b.r.deletionSeen(&gone); ok || len(b.api.resource.Status.Tombstones) != 0 {
				t.Errorf("tombstones %v, pending %v; want none", b.api.resource.Status.Tombstones, b.r.pending)
			}
		})
	}
}
