package host

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestRestoredRemovalLeavesTheMachineAloneThatWasDeployedSince(t *testing.T) {
	l := newLife(t, nil)
	none := func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.edit("web", none)
	older := l.until("web", "being removed", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.Operation.Request == askUndeploy && h.Status.Operation.Accepted
	})
	l.rests("web", v1alpha1.StateAvailable)
	l.edit("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)

	l.edit("web", none)
	l.putBack(older)
	l.rests("web", v1alpha1.StateDeprovisioning)
	if got := l.count("web", "undeploy"); got != 1 {
		t.Fatalf("%d removals, want only that which the older status is about", got)
	}
	if says := l.says("web", v1alpha1.ProgressingCondition, "False", v1alpha1.NotProgressingReason).Message; !strings.Contains(says, v1alpha1.RebuildAnnotation) {
		t.Errorf("Progressing says %q, want the way to remove it all the same", says)
	}
	l.annotate("web", v1alpha1.RebuildAnnotation, "")
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.count("web", "undeploy"); got != 2 {
		t.Errorf("%d removals, want one more for the annotation", got)
	}
}

// putBack gives a host the status that it had before, as a restored API server does.
func (l *life) putBack(older *v1alpha1.BareMetalHost) {
	l.Helper()
	h := l.host(older.Name)
	h.Status = *older.Status.DeepCopy()
	if err := l.api.Status().Update(l.Context(), h); err != nil {
		l.Fatal(err)
	}
	l.restart()
}
