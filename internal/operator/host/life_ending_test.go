package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
	"github.com/ingot-metal/ingot/internal/operator/provisioner/demo"
)

// notes fails unless an event with a reason has all of some words in its note.
func (l *life) notes(reason string, words ...string) {
	l.Helper()
next:
	for i, note := range l.events.notes {
		if l.events.reasons[i] != reason {
			continue
		}
		for _, word := range words {
			if !strings.Contains(note, word) {
				continue next
			}
		}
		return
	}
	l.Errorf("events %q %q, want %s with %q", l.events.reasons, l.events.notes, reason, words)
}

func TestHostWithBMCIsDeletedWithoutTheEngineAndThatIsSaid(t *testing.T) {
	for name, down := range map[string]error{
		"away": fmt.Errorf("%w: no route", provisioner.ErrUnreachable), "denies access": fmt.Errorf("%w: wrong password", provisioner.ErrDenied),
	} {
		for state, change := range map[v1alpha1.ProvisioningState]func(*v1alpha1.BareMetalHost){
			v1alpha1.StateAvailable: nil, v1alpha1.StateProvisioned: withImage,
		} {
			t.Run(name+", "+string(state), func(t *testing.T) {
				l := newLife(t, nil)
				l.add("web", change)
				id, before := l.rests("web", state).Status.Provisioning.ID, len(l.effects("web"))
				l.engine.SetFailing(down)
				l.remove(l.host("web"))
				l.gone("web")
				l.does("web", before)
				if state == v1alpha1.StateProvisioned {
					l.notes(eventDeletedWithoutCleaning, id, "data stays on the disks")
				}
				l.notes(eventPowerManagementError, id, "may still be on", "could not be powered off")
				l.notes(eventDeleteGaveUp, id, "may still be in the engine")
			})
		}
	}
}

func TestDetachedHostWhoseDeletionNeedsANodeIsDeletedWithoutTheEngine(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	l.annotate("web", v1alpha1.DetachedAnnotation, `{"deleteAction": "delay"}`)
	l.until("web", "detached", func(h *v1alpha1.BareMetalHost) bool {
		return h.Status.OperationalStatus == v1alpha1.OperationalStatusDetached
	})
	l.remove(l.host("web"))
	l.engine.SetDown("no route")
	l.edit("web", func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	l.gone("web")
	l.notes(eventDeletedWithoutCleaning, "data on its disks")
	l.notes(eventDeleteGaveUp, provisioner.NodeName("metal", "web"))
}

// failingEngine answers the requests of a deletion with an internal error.
type failingEngine struct {
	*demo.Engine

	asked *int
}

var errInternal = fmt.Errorf("%w: engine error: 500", provisioner.ErrUnreachable)

func (f failingEngine) SetPower(context.Context, string, provisioner.PowerChange) error {
	*f.asked++
	return errInternal
}

func (f failingEngine) Undeploy(context.Context, string) error {
	*f.asked++
	return errInternal
}

// TestDeletionGivesUpWhatTheEngineAnswersWithAnInternalError has an engine that fails for the
// requests of one phase or two. The first answer that is missed is not counted.
func TestDeletionGivesUpWhatTheEngineAnswersWithAnInternalError(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		state  v1alpha1.ProvisioningState
		asked  int
		want   []string
		event  string
	}{
		"power off":              {nil, v1alpha1.StateAvailable, deleteAttempts + 1, []string{"delete"}, eventPowerManagementError},
		"removal, and power off": {withImage, v1alpha1.StateProvisioned, 2 * deleteAttempts, []string{"delete"}, eventDeletedWithoutCleaning},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.add("web", tt.change)
			id, before := l.rests("web", tt.state).Status.Provisioning.ID, len(l.effects("web"))
			asked := 0
			l.change = func(c *Config) { c.Engine = failingEngine{l.engine, &asked} }
			l.restart()
			l.remove(l.host("web"))
			l.gone("web")
			l.does("web", before, tt.want...)
			l.notes(tt.event, id)
			if asked < tt.asked || asked > tt.asked+2 {
				t.Errorf("asked %d times in vain, want about %d", asked, tt.asked)
			}
		})
	}
}

func TestHostWhoseBMCIsLostIsDeletedWithoutCleaning(t *testing.T) {
	const name = "demo-power-error"
	l := newLife(t, nil)
	l.add(name, withImage)
	id, before := l.rests(name, v1alpha1.StateProvisioned).Status.Provisioning.ID, len(l.effects(name))
	l.node(name, func(n *provisioner.Node) {
		n.Power, n.Maintenance, n.Fault, n.MaintenanceReason = "", true, node.FaultPowerFailure, "the BMC does not answer"
	})
	l.remove(l.host(name))
	begun := l.now
	l.gone(name)
	if took := l.now.Sub(begun); took > time.Hour {
		t.Errorf("deleted after %s", took)
	}
	l.does(name, before, "power off", "power off", "power off", "delete")
	l.notes(eventDeletedWithoutCleaning, id, "data stays on the disks", "the BMC does not answer")
	l.notes(eventPowerManagementError, id, "may still be on")
}

func TestDeletionGoesOnWhenTheEngineIsBack(t *testing.T) {
	l := newLife(t, nil)
	l.add("web", withImage)
	l.rests("web", v1alpha1.StateProvisioned)
	before := len(l.effects("web"))
	l.engine.SetDown("no route")
	l.remove(l.host("web"))
	l.until("web", "failed", func(h *v1alpha1.BareMetalHost) bool { return h.Status.Operation.Failures == 1 })
	l.says("web", v1alpha1.ManageableCondition, metav1.ConditionUnknown, v1alpha1.EngineUnreachableReason)
	for range 3 {
		l.pass("web") // at the end of the pause, and in the next one for whatever reason
	}
	if got := l.host("web").Status.Operation.Failures; got != 2 {
		t.Errorf("%d failures in the pause after the second one", got)
	}
	l.engine.SetDown("")
	l.gone("web")
	l.does("web", before, "undeploy", "delete")
}

func TestAnswersThatWereMissedNowAndThenEndNoPhaseOfADeletion(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-deprovisioning"
	l.add(name, withImage)
	l.rests(name, v1alpha1.StateProvisioned)
	l.remove(l.host(name))
	l.rests(name, v1alpha1.StateDeprovisioning)
	for range 2 * deleteAttempts {
		for _, down := range []string{"no route", ""} {
			l.engine.SetDown(down)
			l.now = l.now.Add(l.pass(name))
		}
	}
	if h := l.host(name); h.Status.Provisioning.State != v1alpha1.StateDeprovisioning || h.Status.Operation.Failures != 0 {
		t.Errorf("state %q with %d failures, want the removal to go on", h.Status.Provisioning.State, h.Status.Operation.Failures)
	}
}
