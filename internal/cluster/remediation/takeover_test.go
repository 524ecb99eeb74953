package remediation

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
)

func TestAnAttemptOfAnEarlierVersionWhichCountedItIsNotOneMore(t *testing.T) {
	t.Parallel()
	l := newLife(t, nil)
	l.until("the first attempt", func() bool { return l.remediation().Status.Phase == running })
	m := l.remediation()
	m.Status.RetryCount = 1
	if err := l.management.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if l.untilPhase(deleting); l.cycles != 1 {
		t.Errorf("%d cycles, want 1", l.cycles)
	}
}

// TestWhatCAPM3HasBegunIsTakenOver has the taint of CAPM3, which no annotation of the Node claims,
// and no time of the release. CAPM3 removes the taint only when the host is on. The strategy may have
// become Annotation, which CAPM3 does not have, meanwhile.
func TestWhatCAPM3HasBegunIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		phase v1beta2.RemediationPhase
		held  bool
		after func(l *life)
	}{
		{"off", running, true, (*life).untilAgain},
		{"off and about to be on", waiting, true, (*life).untilAgain},
		{"on", waiting, false, (*life).untilAgain},
		{"off and taken back", running, true, (*life).takeBack},
		{"on and taken back", waiting, false, (*life).takeBack},
		{"off, and the workload cluster does not answer at first", running, true, func(l *life) {
			l.unreachable = errors.New("connection refused")
			for range 3 {
				l.pass()
			}
			l.unreachable = nil
			l.untilAgain()
		}},
		{"on, and the workload cluster does not answer at first", waiting, false, func(l *life) {
			l.unreachable = errors.New("connection refused")
			for range 3 {
				l.pass()
			}
			l.unreachable = nil
			l.untilAgain()
		}},
	} {
		for _, way := range []string{"taint", "annotation"} {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, func(l *life, m *v1beta2.Metal3Remediation) {
					ways[way](l, m)
					m.Finalizers = []string{v1beta2.RemediationFinalizer}
					m.Status.Phase, m.Status.LastRemediated = tt.phase, new(metav1.Now())
				})
				if h := l.host(); tt.held {
					l.write(h, func() { annotate(h, holdKey(l.remediation()), `{"mode":"hard"}`) })
					l.world()
				}
				l.cutOff = !tt.held // CAPM3 powers the host on before it removes the taint
				l.patchNode(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, outOfService) })
				tt.after(l)
				if l.cutOff = false; l.remediation() != nil {
					l.takeBack()
				}
				l.clean()
			})
		}
	}
}

// untilAgain waits until the time of the attempt is over and another begins.
func (l *life) untilAgain() {
	l.Helper()
	l.until("the retry", func() bool { return l.remediation().Status.RetryCount == 1 })
	if n := l.node(); len(n.Spec.Taints) > 0 {
		l.Errorf("the Node has %v", n.Spec.Taints)
	}
}

// TestTheStrategyMayBecomeAnnotationAtAnyPoint has an attempt that may hold the host off, and may
// have put its Node out of service.
func TestTheStrategyMayBecomeAnnotationAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"taint", "deletion"} {
		for name, then := range map[string]func(l *life){
			"the host is off as before":      func(*life) {},
			"the host is not proven off now": func(l *life) { l.r.ProvenOff = neverProven },
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				for passes := range 15 {
					l := newLife(t, ways[way])
					for range passes {
						l.pass()
					}
					then(l)
					m := l.remediation()
					l.write(m, func() { m.Spec.Strategy.Type = v1beta2.AnnotationRemediation })
					began := l.now
					l.untilPhase(waiting)
					if took := l.now.Sub(began); took >= timeout || !l.host().Status.PoweredOn {
						t.Errorf("the attempt took %s, and the host is on: %t", took, l.host().Status.PoweredOn)
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
}

func neverProven(*v1alpha1.BareMetalHost, string, string) error { return errAway }
