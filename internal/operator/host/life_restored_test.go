package host

import (
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
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

// TestRemovalGoesOnAfterTheEngineForgotIt starts the engine on a backup from the time of a live
// update. A person resumes or drops the work that the engine has suspended.
func TestRemovalGoesOnAfterTheEngineForgotIt(t *testing.T) {
	for name, ended := range map[string]node.State{"resumed": node.ServiceWait, "dropped": node.ServiceFailed} {
		t.Run(name, func(t *testing.T) {
			l, _ := newLifeWithAClock(t, demo.VerbService)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			l.update("web")
			l.annotate("web", v1alpha1.RebootAnnotation, "")
			l.until("web", "being updated", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.Updates.Service.Request == askService && atWork(l.nodeOf("web"))
			})
			restore := l.engine.Backup()
			l.until("web", "updated", func(*v1alpha1.BareMetalHost) bool { return l.nodeOf("web").State == node.Active })
			l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			l.until("web", "being removed", func(h *v1alpha1.BareMetalHost) bool {
				return h.Status.Operation.Request == askUndeploy && h.Status.Operation.Accepted
			})
			restore()
			l.node("web", func(n *provisioner.Node) { n.State, n.Busy, n.Suspended = node.ServiceWait, true, true })
			l.now = l.now.Add(l.pass("web"))
			l.node("web", func(n *provisioner.Node) { n.State, n.Busy, n.Suspended, n.StateChangedAt = ended, false, false, l.now })
			l.rests("web", v1alpha1.StateAvailable)
		})
	}
}

func TestHostInUseIsNotReadyWhileAnOlderEngineCannotAdoptItsMachine(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", nil)
	l.rests("web", v1alpha1.StateAvailable)
	restore := l.engine.Backup()
	l.edit("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	restore()
	l.rests("web", v1alpha1.StateProvisioned)
	l.says("web", v1alpha1.ReadyCondition, "False", v1alpha1.NotManageableReason)
	id := l.nodeOf("web").ID
	if says := l.says("web", v1alpha1.ProgressingCondition, "False", v1alpha1.NotProgressingReason).Message; !strings.Contains(says, "ingot node manage "+id) {
		t.Errorf("Progressing says %q, want the way out", says)
	}
	l.engine.SetDown("no route")
	l.pass("web")
	l.says("web", v1alpha1.ReadyCondition, "False", v1alpha1.NotManageableReason)
	l.engine.SetDown("")
	if err := l.engine.Manage(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	l.rests("web", v1alpha1.StateProvisioned)
	l.says("web", v1alpha1.ReadyCondition, "True", v1alpha1.ProvisionedReason)
	if got := l.nodeOf("web").State; got != node.Active {
		t.Errorf("the node is in state %q, want it adopted", got)
	}
}

func TestHostSaysThatTheWorkOnItsMachineIsSuspended(t *testing.T) {
	suspend := func(l *life, on bool) { l.node("web", func(n *provisioner.Node) { n.Busy, n.Suspended = on, on }) }
	for name, tt := range map[string]struct {
		leave, end func(*life)
	}{
		"host that is deployed": {func(*life) {}, func(l *life) { l.rests("web", v1alpha1.StateProvisioned) }},
		"host that is deleted":  {func(l *life) { l.remove(l.host("web")) }, func(l *life) { l.gone("web") }},
		"host that is deleted while it is detached": {func(l *life) {
			l.annotate("web", v1alpha1.DetachedAnnotation, `{"force": true}`)
			l.remove(l.host("web"))
		}, func(l *life) { l.gone("web") }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.engine = demo.New(demo.Options{
				Now: func() time.Time { return l.now }, Durations: map[demo.Verb]time.Duration{demo.VerbDeploy: 5 * time.Minute},
			})
			l.restart()
			l.add("web", withImage)
			l.until("web", "being deployed", func(*v1alpha1.BareMetalHost) bool { return l.count("web", "deploy") == 1 })
			suspend(l, true)
			tt.leave(l)
			for range 10 {
				l.now = l.now.Add(l.pass("web"))
			}
			says := l.says("web", v1alpha1.ProgressingCondition, "False", v1alpha1.NotProgressingReason).Message
			if !strings.Contains(says, "ingot suspension resume "+l.nodeOf("web").ID) {
				t.Errorf("Progressing says %q, want how to resume the work", says)
			}
			suspend(l, false)
			tt.end(l)
		})
	}
}

// TestHostInUseNamesNoCommandThatGoesOnWithSuspendedWorkOnItsMachine then follows the advice that
// the host gives instead.
func TestHostInUseNamesNoCommandThatGoesOnWithSuspendedWorkOnItsMachine(t *testing.T) {
	for state, dropped := range map[node.State]node.State{node.CleanWait: node.CleanFailed, node.Deleting: node.ErrorState, node.DeployWait: node.DeployFailed} {
		t.Run(string(state), func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", withImage)
			l.rests("web", v1alpha1.StateProvisioned)
			before, id := len(l.effects("web")), l.nodeOf("web").ID
			says := func() string {
				l.now = l.now.Add(l.pass("web"))
				return l.says("web", v1alpha1.ProgressingCondition, "False", v1alpha1.NotProgressingReason).Message
			}
			l.node("web", func(n *provisioner.Node) { n.State, n.Busy, n.Suspended = state, true, true })
			if got := says(); strings.Contains(got, "resume") || !strings.Contains(got, "ingot suspension drop "+id) {
				t.Errorf("while work is suspended: %q, want only how to drop it", got)
			}
			l.node("web", func(n *provisioner.Node) { n.State, n.Busy, n.Suspended = dropped, false, false })
			if dropped == node.CleanFailed {
				if got := says(); !strings.Contains(got, "ingot node manage "+id) {
					t.Errorf("after it was dropped: %q, want how to have the machine adopted", got)
				}
				if err := l.engine.Manage(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			} else {
				if got := says(); !strings.Contains(got, v1alpha1.DetachedAnnotation) {
					t.Errorf("after it was dropped: %q, want how to have the machine adopted", got)
				}
				l.annotate("web", v1alpha1.DetachedAnnotation, `{"force": true}`)
				l.until("web", "detached", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.ID == "" })
				l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
			}
			l.rests("web", v1alpha1.StateProvisioned)
			if got := l.nodeOf("web").State; got != node.Active {
				t.Errorf("the node is in state %q, want it adopted", got)
			}
			for _, request := range l.effects("web")[before:] {
				if request == "undeploy" || request == "clean" || request == "provide" || request == "power off" {
					t.Errorf("asked of a machine in use: %q", request)
				}
			}
		})
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
