package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/internal/operator/provisioner"
)

// silent makes the ramdisk of a host's machine silent, or lets it call again.
func (l *life) silent(name string, silent bool) {
	l.Helper()
	l.node(name, func(n *provisioner.Node) {
		n.Agent.LastHeartbeat = l.now
		if silent {
			n.Agent.LastHeartbeat = time.Time{}
		}
	})
	l.now = l.now.Add(10 * time.Minute) // longer than a ramdisk counts as alive without a heartbeat
}

func TestMachineWithoutBMCIsDeployedOnlyWhileItsRamdiskIsAlive(t *testing.T) {
	l := newLife(t, nil)
	const name = "demo-plain"
	l.addPlain(name, nil)
	l.rests(name, v1alpha1.StateAvailable)
	l.does(name, 0, "manage", "provide") // and no inspection
	l.silent(name, true)
	l.edit(name, withImage)
	l.rests(name, v1alpha1.StateAvailable)
	l.says(name, v1alpha1.AvailableForProvisioningCondition, metav1.ConditionFalse, v1alpha1.AgentNotConnectedReason)
	l.silent(name, false)
	l.rests(name, v1alpha1.StateProvisioned)
	l.does(name, 0, "manage", "provide", "deploy")
}

func TestRemovalFromAMachineWithoutBMCWaitsUntilSomebodyBootsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		mode v1alpha1.AutomatedCleaningMode
		end  func(l *life, name string)
		to   v1alpha1.ProvisioningState
		want []string
	}{
		"ramdisk is back": {
			"", func(l *life, name string) { l.silent(name, false) },
			v1alpha1.StateAvailable,
			[]string{"undeploy"},
		},
		"machine is said to be off, no cleaning": {
			v1alpha1.CleaningModeDisabled, func(l *life, name string) { l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "") },
			v1alpha1.StateAvailable,
			[]string{"undeploy"},
		},
		"machine is said to be off, to be cleaned": {
			"", func(l *life, name string) { l.annotate(name, v1alpha1.ConfirmedOffAnnotation, "") },
			v1alpha1.StateDeprovisioning, nil,
		},
		"machine is given up": {
			"", func(l *life, name string) { l.annotate(name, v1alpha1.AbandonedAnnotation, "") },
			v1alpha1.StateUnmanaged,
			[]string{"delete"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, nil)
			l.addPlain("demo-plain", func(h *v1alpha1.BareMetalHost) {
				withImage(h)
				h.Spec.AutomatedCleaningMode = tt.mode
			})
			l.rests("demo-plain", v1alpha1.StateProvisioned)
			l.silent("demo-plain", true)
			l.edit("demo-plain", func(h *v1alpha1.BareMetalHost) { h.Spec.Image = nil })
			l.rests("demo-plain", v1alpha1.StateDeprovisioning)
			l.says("demo-plain", v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.WaitingForManualBootReason)
			before := len(l.effects("demo-plain"))
			tt.end(l, "demo-plain")
			l.until("demo-plain", "in state "+string(tt.to), func(h *v1alpha1.BareMetalHost) bool { return h.Status.Provisioning.State == tt.to })
			l.does("demo-plain", before, tt.want...)
		})
	}
}

func TestUsedMachineWithoutBMCIsForgottenUncleanedAndThatIsSaid(t *testing.T) {
	l := newLife(t, nil)
	l.addPlain("demo-plain", withImage)
	l.rests("demo-plain", v1alpha1.StateProvisioned)
	before := len(l.effects("demo-plain"))
	l.remove(l.host("demo-plain"))
	l.gone("demo-plain")
	l.does("demo-plain", before, "delete")
	l.tells("DeletedWithoutCleaning")
}
