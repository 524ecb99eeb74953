package host

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// TestHostThatWasMovedIsDeletedWithoutItsNode deletes a host as clusterctl does: it takes all annotations away first, that
// of the pause included, and the finalizers last.
func TestHostThatWasMovedIsDeletedWithoutItsNode(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = testImage("a") })
	h := l.rests("web", v1alpha1.StateProvisioned)
	status, err := json.Marshal(h.Status)
	if err != nil {
		t.Fatal(err)
	}
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.PausedAnnotation: v1alpha1.PausedByClusterAPI, v1alpha1.StatusAnnotation: string(status)}
	})
	l.pass("web")
	released := l.nodeOf("web").Released
	if released == "" {
		t.Fatal("the node is not released")
	}
	done := len(l.effects("web"))

	rest := func() {
		t.Helper()
		for range 5 {
			l.pass("web")
			l.now = l.now.Add(time.Minute)
		}
	}
	l.edit("web", func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DeletedForMoveAnnotation: ""}
	})
	rest()
	l.remove(l.host("web"))
	rest()
	if l.host("web") == nil {
		t.Fatal("the host is gone before its finalizers are removed")
	}
	l.does("web", done)
	if got := l.nodeOf("web").Released; got != released {
		t.Errorf("the node has the release %q, want %q, with which the other cluster takes it", got, released)
	}
}
