package host

import (
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

func TestDisksThatAreToStayAreNotCleanedWhenTheEngineForgotSo(t *testing.T) {
	disable := func(h *v1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = v1alpha1.CleaningModeDisabled }
	undeploy := func(l *life) { l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil }) }
	remove := func(l *life) { l.remove(l.host("web")) }
	patch := func(l *life) { l.node("web", func(n *provisioner.Node) { n.SkipsCleaning = false }) }
	for name, tt := range map[string]struct {
		older bool
		leave func(*life)
	}{
		"a person patched the node, removal":              {false, undeploy},
		"a person patched the node, deletion":             {false, remove},
		"the engine was started on an old copy, removal":  {true, undeploy},
		"the engine was started on an old copy, deletion": {true, remove},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			restore := l.engine.Backup()
			l.edit("web", disable)
			l.rests("web", v1alpha1.StateProvisioned)
			if tt.older {
				restore()
			} else {
				patch(l)
			}
			id := l.nodeOf("web").ID
			tt.leave(l)
			l.until("web", "undeployed", func(*v1alpha1.BareMetalHost) bool { return slices.Contains(l.effects("web"), "undeploy") })
			if n, err := l.engine.Node(t.Context(), id); err != nil || !n.SkipsCleaning {
				t.Errorf("undeployed with cleaning, %v", err)
			}
		})
	}
}

func TestNodeOfAnOlderDatabaseGetsTheAddressOfItsBMCAgain(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	restore := l.engine.Backup()
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = testAddress + "2" })
	l.rests("web", v1alpha1.StateAvailable)
	restore()
	before := len(l.engine.Verbs(""))
	l.rests("web", v1alpha1.StateAvailable)
	if got := l.engine.Verbs("")[before:]; !slices.Equal(got, []demo.Verb{demo.VerbUpdate}) {
		t.Fatalf("asked of the engine: %q, want one update", got)
	}
	if got := l.last("web", demo.VerbUpdate).(provisioner.Registration).Access.Address; got != testAddress+"2" {
		t.Errorf("the node has the BMC %q, want the one in the host's spec", got)
	}
}
