package host

import (
	"context"
	"errors"
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

// removing is a provisioned host without a BMC whose deployment is being removed while its machine
// is not booted yet.
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

// endsBootWait has the engine end its wait for the ramdisk of a host's machine.
func (l *life) endsBootWait(name string) {
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
		l.endsBootWait(name)
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

// TestAHostBeingPreparedSaysThatItsMachineHasToBeBooted has a host whose deployment was removed
// without booting its machine.
func TestAHostBeingPreparedSaysThatItsMachineHasToBeBooted(t *testing.T) {
	const name = "demo-plain"
	l := removing(t, name, "disabled")
	l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "yes")
	l.until(name, "preparing", inState(v1alpha1.StatePreparing))
	l.rests(name, v1alpha1.StatePreparing)
	if c := l.says(name, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason); !strings.Contains(c.Message, "boot the machine") {
		t.Errorf("progress %q", c.Message)
	}
	l.endsBootWait(name)
	l.until(name, "available", func(h *v1alpha1.BareMetalHost) bool {
		if h.Status.ErrorType != "" {
			t.Fatalf("error %s: %s", h.Status.ErrorType, h.Status.ErrorMessage)
		}
		return h.Status.Provisioning.State == v1alpha1.StateAvailable
	})
}

// inspectsAgain is a free host without a BMC whose hardware is to be read again.
func inspectsAgain(t *testing.T, name string, change func(*Config)) *life {
	t.Helper()
	l := newLife(t, change)
	l.boot(name)
	l.addPlain(name, func(h *v1alpha1.BareMetalHost) {
		h.Spec.BootMACAddress = demo.SampleInventory(name).Hardware.Interfaces[0].MACAddress
	})
	l.rests(name, v1alpha1.StateAvailable)
	l.annotate(name, v1alpha1.InspectAnnotation, "")
	return l
}

func TestAHostToBeInspectedSaysThatItsMachineHasToBeBooted(t *testing.T) {
	const name = "demo-inspecting"
	l := inspectsAgain(t, name, nil)
	l.rests(name, v1alpha1.StateInspecting)
	if c := l.says(name, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason); !strings.Contains(c.Message, "boot the machine") {
		t.Errorf("progress %q", c.Message)
	}
	l.edit(name, func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = v1alpha1.InspectionModeDisabled })
	if err := l.engine.Abort(t.Context(), l.nodeOf(name).ID); err != nil {
		t.Fatal(err)
	}
	l.rests(name, v1alpha1.StateAvailable)
}

// refusesInspection is an engine that neither starts ramdisks nor lets others do so.
type refusesInspection struct{ engine }

func (refusesInspection) Inspect(context.Context, string) error {
	return fmt.Errorf("%w: the boot interface cannot start the ramdisk", provisioner.ErrInvalid)
}

func TestAHostWhoseNextInspectionIsRefusedIsFreeAgain(t *testing.T) {
	const name = "web"
	l := inspectsAgain(t, name, func(c *Config) { c.Engine = refusesInspection{c.Engine} })
	l.until(name, "inspecting", inState(v1alpha1.StateInspecting))
	if h := l.rests(name, v1alpha1.StateAvailable); h.Status.ErrorType != "" || h.Status.HardwareDetails == nil {
		t.Errorf("error %q, hardware %v", h.Status.ErrorType, h.Status.HardwareDetails)
	}
	l.notes(eventInspectionError, "keeps the hardware details", "cannot start the ramdisk")
}

func TestAHostThatWasNeverInspectedAwaitsWhatIsRefused(t *testing.T) {
	s := newScope(testHost(nil), testNow, 0)
	s.node = &provisioner.Node{State: node.Manageable}
	err := refused(v1alpha1.OperationInspect, askInspect, "a", refusesInspection{}.Inspect(t.Context(), "a"))
	if canDoWithout(s, err) {
		t.Error("the host goes on without having been inspected")
	}
	if s.host.Status.HardwareDetails = &(v1alpha1.HardwareDetails{}); !canDoWithout(s, err) {
		t.Error("the host does not go on with the hardware details that it has")
	}
	if canDoWithout(s, &failure{v1alpha1.OperationInspect, errors.New("no disk")}) {
		t.Error("an inspection that failed counts as refused")
	}
	if s.host.Spec.BMC.Address = testAddress; canDoWithout(s, err) {
		t.Error("a host with a BMC goes on")
	}
}

// TestTheCleaningModeMayChangeUntilTheMachineIsBooted changes the mode during the wait, because the
// engine decides what it cleans when the machine boots.
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
