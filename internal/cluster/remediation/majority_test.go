package remediation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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

// notReady makes another Machine of the control plane one that is not ready.
func (l *life) notReady(name string) {
	l.Helper()
	other, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: name}, &clusterv1.Machine{})
	other.Status.Conditions = nil
	if err := l.management.Status().Update(l.Context(), other); err != nil {
		l.Fatal(err)
	}
}

// newJoiner returns a life in which the machine was deployed for a control plane and has no Node.
// It may be a member of etcd, so that it is not powered off.
func newJoiner(t *testing.T, machines int, way string) *life {
	t.Helper()
	l := newStart(t, ways[way])
	l.choose()
	l.deploy()
	l.joinControlPlane(machines)
	return l
}

func TestAMachineOfTheControlPlaneThatDoesNotJoinItIsReplacedWithoutBeingPoweredOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		machines int
		change   func(l *life)
		status   metav1.ConditionStatus
	}{
		"the second one":                        {2, func(*life) {}, metav1.ConditionFalse},
		"the fourth one, and one of three dies": {4, func(l *life) { l.notReady("edge-1") }, metav1.ConditionTrue},
	} {
		for way := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				l := newJoiner(t, tt.machines, way)
				tt.change(l)
				l.shows(tt.status, v1beta2.WaitingForControlPlaneReason)
				began := l.now
				l.untilPhase(deleting)
				if took := l.now.Sub(began); took < timeout-time.Minute || took > timeout+3*time.Minute {
					t.Errorf("the machine is handed over after %s, want the timeout of ten minutes", took)
				}
				c := meta.FindStatusCondition(l.machine().Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
				if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "has no Node") {
					t.Errorf("condition %+v, want the owner to replace the machine", c)
				}
				if h := l.host(); len(h.Annotations) != 1 || h.Annotations[v1alpha1.UnhealthyAnnotation] == "" || l.cycles > 0 {
					t.Errorf("the host has %v and was off %d times, want only the mark", h.Annotations, l.cycles)
				}
				if m := l.machine(); len(m.Annotations) > 0 {
					t.Errorf("the Machine has %v", m.Annotations)
				}
				for range 3 {
					l.shows(metav1.ConditionTrue, v1beta2.MachineHandedOverReason)
					c := meta.FindStatusCondition(l.remediation().Status.Conditions, v1beta2.ProgressingCondition)
					if !strings.Contains(c.Message, "has no Node") {
						t.Errorf("the condition says %q", c.Message)
					}
					l.pass()
				}
			})
		}
	}
}

// TestARequestIsWithdrawnForAMachineThatMayBeNeededForTheMajorityMeanwhile has a machine without a
// Node whose recovery waits for its turn when another one dies.
func TestARequestIsWithdrawnForAMachineThatMayBeNeededForTheMajorityMeanwhile(t *testing.T) {
	t.Parallel()
	l := newJoiner(t, 4, "annotation")
	l.fencing = false
	requested := func() bool { _, ok := l.machine().Annotations[v1beta2.ExternalRemediationAnnotation]; return ok }
	l.until("the request", requested)
	l.notReady("edge-1")
	l.until("its end", func() bool { return !requested() })
	l.leftAloneFor(timeout-time.Minute, "while the others are too few")
	l.untilPhase(deleting)
}

func TestAMachineOfTheControlPlaneThatHasNotJoinedItIsPoweredOffIfTheOthersAreTheMajority(t *testing.T) {
	t.Parallel()
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l := newJoiner(t, 4, way)
			l.notReady("edge-1")
			l.shows(metav1.ConditionTrue, v1beta2.WaitingForControlPlaneReason)
			other, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge-1"}, &clusterv1.Machine{})
			other.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"}}
			if err := l.management.Status().Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			l.untilPhase(waiting)
			if l.cycles != 1 {
				t.Errorf("the machine was off %d times, want once", l.cycles)
			}
		})
	}
}

// TestAMachineOfTheControlPlaneIsNotReplacedAsLongAsItsNodeIsNotKnown has a workload cluster that
// answers again after an hour. The machine has the timeout to join it from then on.
func TestAMachineOfTheControlPlaneIsNotReplacedAsLongAsItsNodeIsNotKnown(t *testing.T) {
	t.Parallel()
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l := newJoiner(t, 2, way)
			l.shows(metav1.ConditionFalse, v1beta2.WaitingForControlPlaneReason)
			l.unreachable = errAway
			l.leftAloneFor(time.Hour, "while the workload cluster is away")
			l.shows(metav1.ConditionFalse, v1beta2.NodeUnknownReason)
			l.unreachable = nil
			l.leftAloneFor(timeout-2*time.Minute, "after it was away")
			l.untilPhase(deleting)
		})
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

func TestARemediationThatTheControlPlaneCanNeverDoWithoutNeedsAPerson(t *testing.T) {
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
