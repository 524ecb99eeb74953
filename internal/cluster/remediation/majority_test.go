package remediation

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// joinControlPlane makes the machine one of a control plane of so many. The others are shown as
// ready.
func (l *life) joinControlPlane(machines int) {
	l.Helper()
	label := func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "edge", clusterv1.MachineControlPlaneLabel: ""}
	}
	m := l.machine()
	l.write(m, func() { label(m) })
	for i := 1; i < machines; i++ {
		name := fmt.Sprintf("edge-%d", i)
		other := &clusterv1.Machine{ObjectMeta: named(name, types.UID(name)), Spec: clusterv1.MachineSpec{ClusterName: "edge"}}
		label(other)
		other.Spec.InfrastructureRef.Name = name
		other.Status.NodeRef.Name = name
		other.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"}}
		host := l.host().DeepCopy()
		host.ObjectMeta = named(name, types.UID("host-"+name))
		host.Spec.ConsumerRef.Name = name
		for _, obj := range []client.Object{other, host} {
			if err := l.management.Create(l.Context(), obj); err != nil {
				l.Fatal(err)
			}
		}
	}
}

func TestAMachineOfTheControlPlaneIsPoweredOffOnlyIfTheOthersAreTheMajority(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *v1alpha1.BareMetalHost){
		"another Metal3Remediation holds one": func(h *v1alpha1.BareMetalHost) { annotate(h, v1beta2.MetalRemediationAnnotationPrefix+"uid", "{}") },
		"an annotation of its Machine does":   func(h *v1alpha1.BareMetalHost) { annotate(h, v1beta2.MachineRemediationAnnotation, "{}") },
		"one is off by its spec":              func(h *v1alpha1.BareMetalHost) { h.Spec.Online = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, nil)
			l.joinControlPlane(3)
			other := l.host()
			key := client.ObjectKey{Namespace: ns, Name: "edge-1"}
			other, _ = get(l, l.management, key, other)
			before := other.DeepCopy()
			l.write(other, func() { change(other) })
			for range 5 {
				l.pass()
			}
			if h := l.host(); len(h.Annotations) > 0 || l.remediation().Status.Phase != running {
				t.Errorf("the host has %v, status %+v", h.Annotations, l.remediation().Status)
			}
			l.now = l.now.Add(time.Hour) // it is not late, because it waits for its turn
			l.pass()
			l.shows(metav1.ConditionTrue, v1beta2.WaitingForControlPlaneReason)
			l.counted("ingot_remediation_stuck", 0)
			if n := l.told(v1beta2.WaitingForControlPlaneReason); n > 0 {
				t.Errorf("%d warnings of a machine that waits for its turn", n)
			}
			l.write(other, func() { other.Annotations, other.Spec = before.Annotations, before.Spec })
			l.untilPhase(waiting)
			l.takeBack()
			l.clean()
		})
	}
}

func TestTheOnlyMachineOfAControlPlaneIsRebooted(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.joinControlPlane(1)
	l.untilPhase(waiting)
	l.takeBack()
	l.clean()
}

// isNotThereYet leaves another Machine of the control plane without a host, as in the middle of an
// upgrade.
func (l *life) isNotThereYet() {
	l.Helper()
	other, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-1"}, &clusterv1.Machine{})
	other.Status.NodeRef.Name, other.Status.Conditions = "", nil
	if err := l.management.Status().Update(l.Context(), other); err != nil {
		l.Fatal(err)
	}
}

func TestAMachineOfTheControlPlaneThatCannotHaveBootedIsNotNeededForItsMajority(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]func(t *testing.T) *life{
		"the other one": func(t *testing.T) *life {
			t.Helper()
			l := newLife(t, nil)
			l.joinControlPlane(2)
			l.isNotThereYet()
			return l
		},
		"this one": func(t *testing.T) *life {
			t.Helper()
			l := newStart(t, nil)
			l.choose()
			l.errs(v1alpha1.ErrorProvisioning)
			l.joinControlPlane(2)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := life(t)
			l.until("the hold", func() bool { return l.host().Annotations[holdKey(l.remediation())] != "" })
			l.untilPhase(waiting)
		})
	}
}

// TestAMachineOfTheControlPlaneThatHasBootedIsNotPoweredOffBecauseItHasNoNode has a machine that
// may be the second member of etcd.
func TestAMachineOfTheControlPlaneThatHasBootedIsNotPoweredOffBecauseItHasNoNode(t *testing.T) {
	t.Parallel()
	l := newStart(t, nil)
	l.choose()
	l.deploy()
	l.joinControlPlane(2)
	l.shows(metav1.ConditionFalse, v1beta2.WaitingForControlPlaneReason)
	if h := l.host(); len(h.Annotations) > 0 {
		t.Errorf("the host has %v", h.Annotations)
	}
}

func TestAMachineOfTheControlPlaneWhoseNodeIsNotKnownIsNeededForItsMajority(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.joinControlPlane(2)
	l.isNotThereYet()
	l.unreachable = errAway
	l.leftAloneFor(time.Hour, "while the workload cluster is away")
	l.shows(metav1.ConditionFalse, v1beta2.WaitingForControlPlaneReason)
	l.unreachable = nil
	l.untilPhase(waiting)
}

func TestARemediationThatTheControlPlaneCanNeverDoWithoutNeedsSomebodyToLook(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.joinControlPlane(2)
	l.leftAloneFor(time.Hour, "while the other one cannot be the majority")
	l.shows(metav1.ConditionFalse, v1beta2.WaitingForControlPlaneReason)
	l.counted("ingot_remediation_stuck", 1)
	if n := l.told(v1beta2.WaitingForControlPlaneReason); n != 1 {
		t.Errorf("%d events, want one", n)
	}
}

func TestTheControlPlaneKeepsItsMajorityWhenTwoHostsAreHeldOffAtTheSameTime(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.joinControlPlane(3)
	l.until("the beginning", func() bool { return l.remediation().Status.Phase == running })
	s, err := l.r.read(t.Context(), l.remediation())
	if err != nil || next(s.facts) != setHold {
		t.Fatalf("%v, %+v", err, s.facts)
	}
	other, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-1"}, &v1alpha1.BareMetalHost{})
	l.write(other, func() { annotate(other, v1beta2.MachineRemediationAnnotation, "{}") }) // after it was read
	if err := l.r.do(t.Context(), s, setHold); err != nil || len(l.host().Annotations) > 0 {
		t.Errorf("error %v, the host has %v", err, l.host().Annotations)
	}
}
