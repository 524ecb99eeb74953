package remediation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

// ways are the ways to remediate.
var ways = map[string]func(*life, *v1beta2.Metal3Remediation){
	"taint":      func(*life, *v1beta2.Metal3Remediation) {},
	"deletion":   func(l *life, _ *v1beta2.Metal3Remediation) { l.version = "v1.27.9" },
	"annotation": func(_ *life, m *v1beta2.Metal3Remediation) { m.Spec.Strategy.Type = v1beta2.AnnotationRemediation },
}

// conflict is what the API server says when somebody else was first.
var conflict = apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "thing", errors.New("changed"))

func TestAMachineThatBecomesHealthyIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, way)
			l.untilPhase(waiting)
			if s := l.remediation().Status; s.RetryCount != 0 || s.LastRemediated == nil || s.ReleasedAt == nil || l.cycles != 1 {
				t.Errorf("status %+v after %d cycles", s, l.cycles)
			}
			if left := l.remediation().Annotations; len(left) > 0 {
				t.Errorf("a record is still there: %v", left)
			}
			l.takeBack()
			l.clean()
		})
	}
}

func TestTheNodeLosesItsPodsOrItsObject(t *testing.T) {
	t.Parallel()
	l := newLife(t, ways["taint"])
	l.untilPhase(waiting)
	l.published(eventNodeOutOfService)
	if l.node().UID != "n1" {
		t.Errorf("the Node is another one: %s", l.node().UID)
	}
	var pods corev1.PodList
	if err := l.workload.List(t.Context(), &pods); err != nil || len(pods.Items) != 1 {
		t.Errorf("pods %v, %v, want the one that tolerates everything", pods.Items, err)
	}
	l = newLife(t, ways["deletion"])
	l.untilPhase(waiting)
	l.published(eventNodeDeleted)
	l.published(eventNodeRestored)
	if l.node().UID != "n2" {
		t.Errorf("the Node is not another one: %s", l.node().UID)
	}
}

func TestANodeWithFinalizersIsDeletedOnceAndAwaited(t *testing.T) {
	t.Parallel()
	l := newLife(t, ways["deletion"])
	l.patchNode(func(n *corev1.Node) { n.Finalizers = []string{"example.org/cleanup"} })
	l.shows(metav1.ConditionTrue, v1beta2.WaitingForNodeDeletionReason)
	before := l.writes
	for range 5 {
		l.pass()
	}
	if l.writes != before || l.host().Status.PoweredOn {
		t.Errorf("%d writes while the Node has finalizers, and the host is on: %t", l.writes-before, l.host().Status.PoweredOn)
	}
	l.patchNode(func(n *corev1.Node) { n.Finalizers = nil })
	l.untilPhase(waiting)
	l.takeBack()
	l.clean()
}

func TestAMachineIsGivenUpAfterItsRetries(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
				way(l, m)
				m.Spec.Strategy.RetryLimit = 2
			})
			began := l.now
			l.untilPhase(deleting)
			if s := l.remediation().Status; s.RetryCount != 2 || l.cycles != 3 {
				t.Errorf("%d retries and %d cycles, want 2 and 3", s.RetryCount, l.cycles)
			}
			if took := l.now.Sub(began); took < 30*time.Minute {
				t.Errorf("it took %s, want three times the timeout at least", took)
			}
			if _, marked := l.host().Annotations[v1alpha1.UnhealthyAnnotation]; !marked {
				t.Error("the host is not marked")
			}
			c := meta.FindStatusCondition(l.machine().Status.Conditions, clusterv1.MachineOwnerRemediatedCondition)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
				t.Errorf("condition %+v", c)
			}
			l.published(eventHandedOver)
			l.counted("ingot_remediation_total", 3)
			l.counted("ingot_remediation_blocked_total", 0)
			l.takeBack()
			l.clean()
		})
	}
}

func TestAClockThatIsSetBackDoesNotKeepAnAttemptFromEnding(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, way)
			l.untilPhase(waiting)
			l.now = l.now.Add(-365 * 24 * time.Hour)
			began := l.now
			l.until("the second attempt", func() bool { return l.remediation().Status.RetryCount == 1 })
			if took := l.now.Sub(began); took < 10*time.Minute || took > 15*time.Minute {
				t.Errorf("it began after %s, want the timeout of ten minutes", took)
			}
		})
	}
}

func TestAHostIsNotMarkedAnyMoreWhoseMachineBecomesHealthyAtLast(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	marked := func() bool { return l.host().Annotations[v1alpha1.UnhealthyAnnotation] != "" }
	l.until("the mark", marked)
	l.takeBack()
	l.clean()
	if marked() {
		t.Errorf("annotations of the host %v", l.host().Annotations)
	}
}

func TestAHealthyMachineIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.untilPhase(waiting)
	m := l.machine()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "Healthy"})
	if err := l.management.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		l.pass()
	}
	if s := l.remediation().Status; s.Phase != waiting || l.cycles != 1 {
		t.Errorf("phase %s after %d cycles", s.Phase, l.cycles)
	}
}

func TestAHostThatCannotBeRemediatedFails(t *testing.T) {
	t.Parallel()
	for reason, change := range map[obstacle]func(*life){
		offline:  func(l *life) { h := l.host(); l.write(h, func() { h.Spec.Online = false }) },
		noBMC:    func(l *life) { h := l.host(); l.write(h, func() { h.Spec.BMC = v1alpha1.BMCDetails{} }) },
		neverOff: func(l *life) { h := l.host(); l.write(h, func() { h.Spec.DisablePowerOff = true }) },
		noHost:   func(l *life) { h := l.host(); l.write(h, func() { h.Spec.ConsumerRef = nil }) },
		noMachine: func(l *life) {
			m := l.remediation()
			l.write(m, func() { m.OwnerReferences = nil })
		},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, nil)
			change(l)
			l.untilPhase(failed)
			l.unreachable = errors.New("connection refused")
			l.shows(metav1.ConditionFalse, string(reason))
			l.published(string(reason))
			l.counted("ingot_remediation_total", 0)
			l.counted("ingot_remediation_blocked_total", 1)
			if h := l.host(); len(h.Annotations) > 0 || l.node() == nil {
				t.Errorf("annotations %v, Node %v", h.Annotations, l.node())
			}
		})
	}
}

func TestALostHostIsNotOff(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPower = true })
	l.until("a hold", func() bool { return len(l.host().Status.PowerOffHolds) > 0 })
	h := l.host()
	l.write(h, func() { h.Spec.ConsumerRef.Name = "another" })
	l.stuckPower = false // now it would be off
	l.untilPhase(failed)
	l.until("removal of the hold", func() bool { return len(l.host().Annotations) == 0 })
	if n := l.node(); n == nil || len(n.Spec.Taints) > 0 {
		t.Errorf("the Node is %+v", n)
	}
}

func TestAMachineThatHasLostItsHostIsNotReplaced(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	h := l.host()
	l.write(h, func() { h.Spec.ConsumerRef.Name = "another" })
	l.shows(metav1.ConditionFalse, string(noHost))
	for range 60 {
		l.pass()
	}
	if c := meta.FindStatusCondition(l.machine().Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c != nil {
		t.Errorf("its owner is told to replace it: %+v", c)
	}
	c := meta.FindStatusCondition(l.remediation().Status.Conditions, v1beta2.ProgressingCondition)
	if !strings.Contains(c.Message, "Delete the Machine when it is certain that nothing of it runs any more") {
		t.Errorf("the condition says %q", c.Message)
	}
	h = l.host()
	l.write(h, func() { h.Spec.ConsumerRef.Name = "edge-0" })
	l.untilPhase(running)
}

func TestTheNodeStaysWhileTheHostIsNotProvenToBeOff(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPower = true })
	for range 60 {
		l.pass()
	}
	if s := l.remediation().Status; s.Phase != running || s.RetryCount != 0 || len(l.node().Spec.Taints) > 0 {
		t.Errorf("status %+v, Node %+v", s, l.node())
	}
	l.published(v1beta2.PowerOffNotConfirmedReason)
	l.stuckPower = false
	l.untilPhase(waiting)
	l.takeBack()
	l.clean()
}

func TestAHostThatGoesToAnotherConsumerWhileItsNodeIsSearchedKeepsTheNode(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"taint", "deletion"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, ways[way])
			l.until("the proof", func() bool {
				held := l.host().Status.PowerOffHolds
				return len(held) == 1 && (way == "taint" || hasBackup(l.remediation()))
			})
			l.searching = func() {
				h := l.host()
				l.write(h, func() { h.Spec.ConsumerRef.Name = "another" })
			}
			l.pass()
			if n := l.node(); n == nil || len(n.Spec.Taints) > 0 {
				t.Errorf("the Node is %+v", n)
			}
		})
	}
}

func TestANodeThatTheHoldWasNotSetForNeedsANewProof(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"taint", "deletion"} {
		for name, change := range map[string]func(l *life){
			"registered anew": func(l *life) {
				if err := l.workload.Delete(l.Context(), l.node()); err != nil {
					l.Fatal(err)
				}
				again := l.newNode("n9")
				again.Labels["rack"], again.Annotations = "r1", map[string]string{"team": "db"}
				if err := l.workload.Create(l.Context(), again); err != nil {
					l.Fatal(err)
				}
			},
			"not known before": func(l *life) { l.unreachable = nil },
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
					ways[way](l, m)
					l.stuckPower = true
					if name == "not known before" {
						l.unreachable = errors.New("connection refused")
					}
				})
				key := holdKey(l.remediation())
				l.until("the hold", func() bool { return l.host().Annotations[key] != "" })
				before := l.host().Annotations[key]
				change(l)
				l.stuckPower = false
				l.until("a new hold", func() bool { return l.host().Annotations[key] != before })
				if n := l.node(); n == nil || len(n.Spec.Taints) > 0 || !isHeldFor(l.remediation(), l.host(), n) {
					t.Errorf("Node %v, host %v", n, l.host().Annotations)
				}
				l.untilPhase(waiting)
				l.takeBack()
				l.clean()
			})
		}
	}
}

func TestANodeThatMayBeAnotherMachinesIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"taint", "deletion"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
				ways[way](l, m)
				l.doubt = "Machine edge-1 names it, too"
			})
			l.untilPhase(waiting)
			l.published(v1beta2.NodeUnknownReason)
			if n := l.node(); n == nil || n.UID != "n1" || len(n.Spec.Taints) > 0 {
				t.Errorf("the Node is %+v", n)
			}
			l.takeBack()
			l.clean()
		})
	}
}

func TestPodsThatDoNotGoDoNotKeepTheHostOff(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, _ *v1beta2.Metal3Remediation) { l.stuckPods = true })
	l.untilPhase(waiting)
	l.published(eventEvictionIncomplete)
	l.takeBack()
	l.clean()
}

func TestAWorkloadClusterThatDoesNotAnswerDoesNotKeepTheHostOff(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
				way(l, m)
				l.unreachable = errors.New("connection refused")
			})
			l.untilPhase(waiting)
			l.takeBack()
			l.clean()
		})
	}
}

func TestAHostWhoseNodeMayHaveTheTaintStaysOffUntilThatIsKnownToBeGone(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(l *life){
		"attempt goes on": func(*life) {},
		"taken back": func(l *life) {
			if err := l.management.Delete(l.Context(), l.remediation()); err != nil {
				l.Fatal(err)
			}
		},
		"Machine being deleted": func(l *life) {
			m := l.machine()
			l.write(m, func() { m.Finalizers = []string{"test/kept"} })
			if err := l.management.Delete(l.Context(), m); err != nil {
				l.Fatal(err)
			}
		},
		"restarted": (*life).restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, nil)
			l.until("the taint", func() bool { return len(l.node().Spec.Taints) > 0 })
			l.unreachable = errors.New("connection refused")
			after(l)
			for range 10 {
				l.now = l.now.Add(time.Hour)
				l.pass()
			}
			if l.host().Status.PoweredOn || l.remediation() == nil {
				t.Fatalf("the host is on: %t, remediation %v", l.host().Status.PoweredOn, l.remediation())
			}
			l.unreachable = nil
			l.until("the host is on", func() bool { return l.host().Status.PoweredOn })
			if n := l.node(); len(n.Spec.Taints) > 0 {
				t.Errorf("the Node has %v", n.Spec.Taints)
			}
			if name == "attempt goes on" || name == "restarted" {
				l.leftAloneFor(timeout-30*time.Second, "after it was off for hours")
				l.goesOn(0)
			}
		})
	}
}

func TestAHostThatItsDeletedMachineGaveBackIsNotHeldForItsTaint(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.until("the taint", func() bool { return len(l.node().Spec.Taints) > 0 })
	l.unreachable = errors.New("connection refused")
	m := l.machine()
	l.write(m, func() { m.Finalizers = []string{"test/kept"} })
	if err := l.management.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	h := l.host()
	l.write(h, func() { h.Spec.ConsumerRef = nil })
	l.unreachable, l.cutOff = errors.New("connection refused"), true
	l.until("removal of the hold", func() bool { return len(l.host().Annotations) == 0 })
}

func TestTheHostStaysOffWhileItIsNotKnownWhetherItsNodeHasTheTaint(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]func(l *life) bool{
		"released": func(l *life) bool { return l.remediation().Status.ReleasedAt != nil },
		"taken back": func(l *life) bool {
			tainted := len(l.node().Spec.Taints) > 0
			if tainted {
				if err := l.management.Delete(l.Context(), l.remediation()); err != nil {
					l.Fatal(err)
				}
			}
			return tainted
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, nil)
			l.until(name, func() bool { return from(l) })
			l.unreachable = errors.New("connection refused")
			for range 5 {
				l.pass()
			}
			if l.host().Status.PoweredOn {
				t.Error("the host is on")
			}
			l.unreachable = nil
			if l.remediation().DeletionTimestamp.IsZero() {
				l.untilPhase(waiting)
				l.takeBack()
			}
			l.until("end", func() bool { return l.remediation() == nil })
			l.clean()
		})
	}
}

// TestARemediationCanBeTakenBackAtAnyPoint also shows that nothing more happens to the Node then.
func TestARemediationCanBeTakenBackAtAnyPoint(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for passes := range 25 {
				l := newLife(t, way)
				for range passes {
					l.pass()
				}
				l.takeBack()
				l.clean()
				if t.Failed() {
					t.Fatalf("after %d passes", passes)
				}
			}
		})
	}
}

// TestEachWriteMayFail has each write refused, or its answer lost, once in a life.
func TestEachWriteMayFail(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lives := func(change func(*life)) *life {
				l := newLife(t, way)
				change(l)
				l.untilPhase(deleting)
				l.takeBack()
				l.clean()
				if l.cycles != 2 {
					t.Errorf("%d cycles, want 2", l.cycles)
				}
				return l
			}
			all := lives(func(*life) {}).writes
			t.Logf("%d writes", all)
			for n := 1; n <= all; n++ {
				at := func(err error) func(int) error {
					return func(now int) error {
						if now == n {
							return err
						}
						return nil
					}
				}
				lives(func(l *life) { l.refuse = at(conflict) })
				lives(func(l *life) { l.lose = at(errors.New("the answer is lost")) })
				if t.Failed() {
					t.Fatalf("write %d of %d", n, all)
				}
			}
		})
	}
}

// TestARemediationThatMovedBeginsAnew has a new UID and no status, as after a move with
// clusterctl, while the host is held off for the UID before.
func TestARemediationThatMovedBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"taint", "deletion"} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, taken back %t", way, taken), func(t *testing.T) {
				t.Parallel()
				l := newLife(t, ways[way])
				l.until("power off", func() bool { return !l.host().Status.PoweredOn })
				for range 2 {
					l.pass()
				}
				m := l.remediation()
				moved := &v1beta2.Metal3Remediation{ObjectMeta: named(m.Name, "r2"), Spec: m.Spec}
				moved.Annotations, moved.OwnerReferences, moved.Finalizers = m.Annotations, m.OwnerReferences, m.Finalizers
				m.Finalizers = nil
				if err := l.management.Update(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if err := l.management.Delete(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if err := l.management.Create(t.Context(), moved); err != nil {
					t.Fatal(err)
				}
				if !taken {
					l.untilPhase(waiting)
				}
				l.takeBack()
				l.clean()
			})
		}
	}
}

func TestAnAnnotationOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
		ways["annotation"](l, m)
		l.fencing = false
	})
	m := l.machine()
	l.write(m, func() { annotate(m, v1beta2.ExternalRemediationAnnotation, "ann") })
	for range 30 {
		l.pass()
	}
	if s := l.remediation().Status; s.Phase != running || l.machine().Annotations[v1beta2.ExternalRemediationAnnotation] != "ann" {
		t.Errorf("phase %s, annotations %v", s.Phase, l.machine().Annotations)
	}
	l.published(v1beta2.WaitingForOtherRecoveryReason)
	l.takeBack()
	if l.machine().Annotations[v1beta2.ExternalRemediationAnnotation] != "ann" {
		t.Error("the annotation of somebody else was removed")
	}
}

func TestNothingHappensWhilePaused(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	c, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge"}, &clusterv1.Cluster{})
	l.write(c, func() { c.Spec.Paused = new(bool); *c.Spec.Paused = true })
	for range 5 {
		l.pass()
	}
	if l.writes > 0 {
		t.Errorf("%d writes", l.writes)
	}
}
