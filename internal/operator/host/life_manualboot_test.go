package host

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/node"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// removing is a provisioned host without a BMC whose deployment is being removed, with its machine not
// booted yet.
func removing(t *testing.T, name, mode string) *life {
	t.Helper()
	l := newLife(t, nil)
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		withImage(h)
		h.Spec.AutomatedCleaningMode = v1alpha1.AutomatedCleaningMode(mode)
	})
	l.rests(name, v1alpha1.StateProvisioned)
	l.silent(name, true)
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
	l.rests(name, v1alpha1.StateDeprovisioning)
	return l
}

// givesUp has the engine end its wait for the ramdisk of a host's machine.
func (l *life) givesUp(name string) {
	l.Helper()
	l.node(name, func(n *provisioner.Node) {
		n.State, n.StateChangedAt, n.LastError = node.CleanFailed, l.now, "timed out in state \"clean wait\""
		n.Maintenance, n.Fault = true, "clean failure"
	})
}

// TestAMachineThatAPersonBootsIsWaitedForHoweverLong has the engine end its wait again and again.
func TestAMachineThatAPersonBootsIsWaitedForHoweverLong(t *testing.T) {
	const name = "demo-plain"
	l := removing(t, name, "metadata")
	for range 3 {
		l.now = l.now.Add(30 * time.Minute)
		l.givesUp(name)
		l.until(name, "waiting again", func(h *v1alpha1.BareMetalHost) bool {
			if h.Status.ErrorType != "" {
				t.Fatalf("error %s: %s", h.Status.ErrorType, h.Status.ErrorMessage)
			}
			return l.nodeOf(name).State == node.CleanWait
		})
		l.rests(name, v1alpha1.StateDeprovisioning)
		l.says(name, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason)
	}
	l.silent(name, false)
	l.rests(name, v1alpha1.StateAvailable)
}

// TestAHostBeingPreparedSaysThatItsMachineHasToBeBooted after the removal has ended without it.
func TestAHostBeingPreparedSaysThatItsMachineHasToBeBooted(t *testing.T) {
	const name = "demo-plain"
	l := removing(t, name, "disabled")
	l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "yes")
	l.until(name, "preparing", inState(v1alpha1.StatePreparing))
	l.rests(name, v1alpha1.StatePreparing)
	if c := l.says(name, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason); !strings.Contains(c.Message, "boot the machine") {
		t.Errorf("progress %q", c.Message)
	}
	l.givesUp(name)
	l.until(name, "available", func(h *v1alpha1.BareMetalHost) bool {
		if h.Status.ErrorType != "" {
			t.Fatalf("error %s: %s", h.Status.ErrorType, h.Status.ErrorMessage)
		}
		return h.Status.Provisioning.State == v1alpha1.StateAvailable
	})
}

// TestTheCleaningModeMayChangeUntilTheMachineIsBooted: the engine decides then what it cleans.
func TestTheCleaningModeMayChangeUntilTheMachineIsBooted(t *testing.T) {
	for _, mode := range []v1alpha1.AutomatedCleaningMode{v1alpha1.CleaningModeDisabled, v1alpha1.CleaningModeMetadata} {
		const name = "demo-plain"
		other := v1alpha1.CleaningModeMetadata
		if mode == other {
			other = v1alpha1.CleaningModeDisabled
		}
		l := removing(t, name, string(other))
		l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = mode })
		l.rests(name, v1alpha1.StateDeprovisioning)
		if skips := l.nodeOf(name).SkipsCleaning; skips != (mode == v1alpha1.CleaningModeDisabled) {
			t.Errorf("%s: the node is left as it is: %v", mode, skips)
		}
	}
}
