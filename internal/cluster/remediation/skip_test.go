package remediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
)

func (l *life) skip(value string) {
	l.Helper()
	m := l.machine()
	l.write(m, func() { annotate(m, clusterv1.MachineSkipRemediationAnnotation, value) })
}

func (l *life) endSkip() {
	l.Helper()
	m := l.machine()
	l.write(m, func() { delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation) })
}

func TestNothingIsBegunAndNoMachineGivenUpThatSomebodyKeepsFromBeingRemediated(t *testing.T) {
	t.Parallel()
	for way, change := range ways {
		for name, until := range map[string]func(l *life){
			"before the first attempt": func(*life) {},
			"before the hold":          func(l *life) { l.untilPhase(running) },
			"before the second":        func(l *life) { l.untilWaitAfter(0) },
			"after the last":           func(l *life) { l.untilWaitAfter(1) },
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, change)
				until(l)
				l.skip("maintenance")
				l.leftAloneFor(time.Hour, "while it is skipped")
				l.shows(metav1.ConditionTrue, v1beta2.RemediationSkippedReason)
				l.counted("ingot_remediation_stuck", 0)
				l.endSkip()
				l.untilPhase(deleting)
			})
		}
	}
}

// TestARecoveryByAnnotationThatWaitsForItsTurnIsWithdrawnWhenTheMachineIsSkipped has nobody act on
// the annotation until then, as when other hosts of the cluster are being fenced.
func TestARecoveryByAnnotationThatWaitsForItsTurnIsWithdrawnWhenTheMachineIsSkipped(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]func(l *life){
		"in the first attempt": func(*life) {},
		"in the second":        func(l *life) { l.untilWaitAfter(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, ways["annotation"])
			attempt(l)
			l.fencing = false
			requested := func() bool { _, ok := l.machine().Annotations[v1beta2.ExternalRemediationAnnotation]; return ok }
			l.until("the request", requested)
			l.skip("maintenance")
			l.until("its end", func() bool { return !requested() })
			l.fencing = true // its turn has come
			l.leftAloneFor(time.Hour, "while it is skipped")
			l.shows(metav1.ConditionTrue, v1beta2.RemediationSkippedReason)
			l.endSkip()
			l.untilPhase(deleting)
		})
	}
}

// TestARecoveryByAnnotationIsWithdrawnOnceAlthoughAnEarlierWayLeftSomething has a remediation whose
// strategy was another one before.
func TestARecoveryByAnnotationIsWithdrawnOnceAlthoughAnEarlierWayLeftSomething(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]func(l *life){
		"a backup": func(l *life) {
			m := l.remediation()
			l.write(m, func() { annotate(m, v1beta2.NodeLabelsBackupAnnotation, "{}") })
		},
		"a record of a taint": func(l *life) {
			m := l.remediation()
			l.write(m, func() { annotate(m, v1beta2.OutOfServiceAnnotation, "web") })
		},
		"a hold": func(l *life) {
			h := l.host()
			l.write(h, func() {
				annotate(h, v1beta2.MetalRemediationAnnotationPrefix+"former", holdValue(l.remediation(), nil, l.now))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, ways["annotation"])
			l.fencing = false
			requested := func() bool { _, ok := l.machine().Annotations[v1beta2.ExternalRemediationAnnotation]; return ok }
			l.until("the request", requested)
			left(l)
			l.skip("maintenance")
			l.until("its end", func() bool { return !requested() })
			before := l.writes - 1
			l.until("its rest", func() bool { rests := l.writes == before; before = l.writes; return rests })
			l.shows(metav1.ConditionTrue, v1beta2.RemediationSkippedReason)
			if l.host().IsHeldOff() {
				t.Error("the host stays off while its machine is skipped")
			}
			for range 10 {
				l.pass()
			}
			if l.writes > before {
				t.Errorf("%d writes while it is skipped", l.writes-before)
			}
			l.endSkip()
			l.until("the request again", requested)
		})
	}
}

func TestWhatWasBegunGoesOnUntilTheHostIsOnAlthoughTheMachineIsSkippedMeanwhile(t *testing.T) {
	t.Parallel()
	for way, change := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, change)
			l.until("the host is off", func() bool { return !l.host().Status.PoweredOn })
			l.skip("")
			l.untilPhase(waiting)
			l.leftAloneFor(time.Hour, "while it is skipped")
			l.endSkip()
			l.takeBack()
			l.clean()
		})
	}
}

func TestWhatSuspendsHealthChecksForARecoveryByAnnotationKeepsNoMachineFromBeingRemediated(t *testing.T) {
	t.Parallel()
	l := newLife(t, ways["annotation"])
	l.skip(v1beta2.SkipRemediationMarker)
	l.untilPhase(deleting)
}
