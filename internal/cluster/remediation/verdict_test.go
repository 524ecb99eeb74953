package remediation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

var errAway = errors.New("connection refused")

// leftAlone fails if the host or the Machine has got anything that powers the machine off or
// replaces it.
func (l *life) leftAlone(when string) {
	l.Helper()
	h, m := l.host(), l.machine()
	for key := range h.Annotations {
		if strings.HasPrefix(key, v1alpha1.RebootAnnotationPrefix) || key == v1alpha1.UnhealthyAnnotation {
			l.Errorf("%s the host has %s", when, key)
		}
	}
	if value, there := m.Annotations[v1beta2.ExternalRemediationAnnotation]; there {
		l.Errorf("%s the Machine has the request %q", when, value)
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineOwnerRemediatedCondition); c != nil {
		l.Errorf("%s the owner of the Machine is to replace it: %+v", when, c)
	}
	if !h.Status.PoweredOn {
		l.Errorf("%s the host is off", when)
	}
}

// leftAloneFor makes passes for a time, and fails when one of them does something to the machine.
func (l *life) leftAloneFor(time time.Duration, when string) {
	l.Helper()
	for end := l.now.Add(time); l.now.Before(end) && !l.Failed(); {
		l.leftAlone(when)
		l.pass()
	}
}

// goesOn waits until the machine is powered off again or, after its last attempt, handed over.
func (l *life) goesOn(retries int32) {
	l.Helper()
	l.until("what follows", func() bool {
		s := l.remediation().Status
		return s.RetryCount > retries || s.Phase == deleting
	})
}

// untilWaitAfter waits until the machine has had so many retries and waits for its health.
func (l *life) untilWaitAfter(retries int32) {
	l.Helper()
	l.until(fmt.Sprintf("the wait after %d retries", retries), func() bool {
		s := l.remediation().Status
		return s.RetryCount == retries && s.Phase == waiting
	})
}

// timeout is that of the remediation in these tests.
const timeout = 10 * time.Minute

func TestAMachineIsNotPoweredOffAgainOrReplacedWhileNobodyCanSeeWhetherItBecameHealthy(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		for _, retries := range []int32{0, 1} {
			t.Run(fmt.Sprintf("%s, %d retries", name, retries), func(t *testing.T) {
				t.Parallel()
				l := newLife(t, way)
				l.untilWaitAfter(retries)
				l.unreachable = errAway
				l.leftAloneFor(3*time.Hour, "while the workload cluster is away")
				l.shows(metav1.ConditionFalse, v1beta2.NodeUnknownReason)
				l.counted("ingot_remediation_stuck", 1)
				l.unreachable = nil
				l.leftAloneFor(timeout, "when it is back")
				l.counted("ingot_remediation_stuck", 0)
				l.goesOn(retries)
			})
		}
	}
}

func TestAMachineOfTheControlPlaneIsTriedAgainAlthoughItsAPIServerIsAway(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.joinControlPlane(1)
	l.unreachable = errAway
	l.goesOn(0)
	l.untilPhase(deleting)
	if l.cycles != 2 {
		t.Errorf("%d cycles, want 2", l.cycles)
	}
}

func TestAMachineHasItsTimeAgainWhenNoPassRanAtItsEnd(t *testing.T) {
	t.Parallel()
	for name, blind := range map[string]func(l *life){
		"the operator was away": func(l *life) { l.now = l.now.Add(time.Hour) },
		"the Cluster was paused": func(l *life) {
			c, _ := get(l, l.management, client.ObjectKey{Namespace: ns, Name: "edge"}, &clusterv1.Cluster{})
			l.write(c, func() { c.Spec.Paused = new(true) })
			l.pass()
			l.now = l.now.Add(time.Hour)
			l.pass()
			l.leftAlone("while it is paused")
			l.write(c, func() { c.Spec.Paused = nil })
		},
	} {
		for _, retries := range []int32{0, 1} {
			t.Run(fmt.Sprintf("%s, %d retries", name, retries), func(t *testing.T) {
				t.Parallel()
				l := newLife(t, nil)
				l.untilWaitAfter(retries)
				blind(l)
				began := l.now
				l.leftAloneFor(timeout, "afterwards")
				l.goesOn(retries)
				if took := l.now.Sub(began); took > 13*time.Minute {
					t.Errorf("it goes on after %s, want the timeout of ten minutes", took)
				}
			})
		}
	}
}

func (l *life) nodeIsReady() {
	l.Helper()
	n := l.node()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := l.workload.Status().Update(l.Context(), n); err != nil {
		l.Fatal(err)
	}
}

func TestAMachineWhoseNodeIsReadyHasItsTimeOnceMoreInEachAttempt(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, way)
			for retries := range int32(2) {
				l.untilWaitAfter(retries)
				began := l.now
				l.nodeIsReady()
				l.shows(metav1.ConditionTrue, v1beta2.WaitingForHealthReason)
				l.shows(metav1.ConditionTrue, v1beta2.WaitingForHealthCheckReason)
				l.leftAloneFor(timeout-time.Minute, "while the health check has more time")
				l.goesOn(retries)
				if took := l.now.Sub(began); took < 2*timeout-30*time.Second || took > 2*timeout+3*time.Minute {
					t.Errorf("it goes on after %s, want twice the timeout", took)
				}
			}
		})
	}
}

func TestTheTimeToBecomeHealthyBeginsWhenNothingKeepsTheHostOffAnyMore(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.until("the release", func() bool { return l.remediation().Status.ReleasedAt != nil })
	l.unreachable = errAway
	for end := l.now.Add(timeout - time.Minute); l.now.Before(end); {
		l.pass()
	}
	if l.host().Status.PoweredOn {
		t.Fatal("the host is on although its Node may have the taint")
	}
	l.unreachable = nil
	l.until("the host is on", func() bool { return l.host().Status.PoweredOn })
	l.leftAloneFor(timeout-30*time.Second, "after it was off")
	l.goesOn(0)
}
